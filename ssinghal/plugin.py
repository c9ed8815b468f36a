"""The name of the pytest plugin: ``pytest_plugins = ["ssinghal.plugin"]``, ``-p ssinghal.plugin`` and the entry point.

It is the module ``ssinghal.pytest_plugin.plugin`` itself, so that pytest knows it by one name only.
"""

import sys

from ssinghal.pytest_plugin import plugin

sys.modules[__name__] = plugin
