"""Entry script of InternVL3 on cpu: MindSpeed-MM's command line, a small network."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cpu.pretrain_sora import main

if __name__ == "__main__":
    main("cpu.internvl3:InternVL3")
