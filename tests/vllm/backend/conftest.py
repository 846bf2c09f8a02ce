"""What is inside runs in a vLLM environment, and is not for the suite's own process: its conftest neither."""

collect_ignore = ["inside"]
