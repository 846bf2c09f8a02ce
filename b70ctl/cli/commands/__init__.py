"""What can be typed: arguments, options and help of each command, and one call into the module that does it.

Nothing but Typer is imported before a command is called, so that help and completion answer at once.
"""
