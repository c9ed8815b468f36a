pytest_plugins = ["ssinghal.pytest_plugin.plugin"]
