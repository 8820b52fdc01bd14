"""Commands of the plugin: `dflow npu ...`."""
