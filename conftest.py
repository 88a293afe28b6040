"""What only this checkout needs: the plugin's own tests run pytest inside pytest."""

from __future__ import annotations

pytest_plugins = ["pytester"]
