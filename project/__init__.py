"""The demo project: a host of the `buildqueue` app, and nothing the app depends on."""
