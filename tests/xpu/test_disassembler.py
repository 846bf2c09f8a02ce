from __future__ import annotations

import stat
from pathlib import Path

import pytest

from .disassembler import disassemble, read

LISTING = """\
//.kernel attend
//.platform XE2
//.thread_config numGRF=256, numAcc=8
//.spill size 192
//.declare V1 (1)  rf=r size=64 type=d align=32 words (r67.0)
L0:
(W)     mov (16|M0)              r2.0<1>:ud    r0.0<1;1,0>:ud                   //  $1
_0_010:
        add (16|M0)              r3.0<1>:d     r3.0<1;1,0>:d     1:w            //  $2
_0_011:
        load.slm.d32x8.a32 (16|M0)  r4:8 [r3:1]                                 //  $3
        dpas.8x8 (16|M0)         r10:f         null:f            r4:hf   r5.0:hf  //  $4
        dpas.8x8 (16|M0)         r10:f         r10:f             r4:hf   r5.0:hf  //  $5
(W&f0.0) jmpi                    _0_011                                          //  $6
// B005: Preds:{B004}
(W&~f1.0) jmpi                   _0_010                                          //  $7
(W)     jmpi                     _0_012                                          //  $8
_0_012:
(W)     send.gtwy (1|M0)         null r112  null:0  0x0  0x02000010             //  $9
"""


def test_the_longest_loop_counts_and_jumps_ahead_are_none():
    listing = read(LISTING)
    assert (listing.loop, listing.matrix_instructions, listing.instructions) == (6, 2, 9)
    assert (listing.spilled_bytes, listing.registers) == (192, 256)


def test_a_kernel_without_loop_or_spills_has_none():
    straight = "".join(line + "\n" for line in LISTING.splitlines() if "jmpi" not in line and "spill" not in line)
    listing = read(straight)
    assert (listing.loop, listing.matrix_instructions, listing.spilled_bytes) == (0, 0, 0)


def compiler(folder: Path, body: str) -> Path:
    program = folder / "ocloc"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.mark.process
def test_of_two_attempts_the_one_that_was_taken_is_read(tmp_path):
    worse = LISTING.replace("spill size 192", "spill size 4096").replace("add ", "mov ")
    (tmp_path / "worse").write_text(worse)
    (tmp_path / "taken").write_text(LISTING)
    body = f"""d=$IGC_DumpToCustomDir; mkdir -p "$d"
echo 'spill_size:      192' > "$d/k.zeinfo"
cp {tmp_path}/taken "$d/k_simd16_entry_0001.asm"; cp {tmp_path}/worse "$d/k_1_simd16_entry_0001.asm" """
    assert disassemble(compiler(tmp_path, body), "attend", b"", "", "bmg-g31") == read(LISTING)


@pytest.mark.process
def test_a_compiler_that_refuses_is_quoted(tmp_path):
    program = compiler(tmp_path, "echo 'error: undefined reference'; exit 11")
    with pytest.raises(RuntimeError, match=r"exit 11: error: undefined reference"):
        disassemble(program, "attend", b"", "", "bmg-g31")
