"""Reads Task6's ``config.json`` (or the same keys as YAML) into settings of this plugin.

``fields`` lists the fields, ``text`` is the tolerant JSON reader, ``nodes`` reads MULTI_NODE, and
``conf`` is the wizard that writes such a file. Nothing here starts a process or looks at a path.
"""

from __future__ import annotations

from pytest_lmsv.task6_config.nodes import MultiNode, NodeConfig
from pytest_lmsv.task6_config.reading import Task6Config, is_task6, read

__all__ = ["MultiNode", "NodeConfig", "Task6Config", "is_task6", "read"]
