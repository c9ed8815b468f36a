pytest_plugins = ["ssinghal.plugin"]
