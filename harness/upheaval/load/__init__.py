"""Load by locust: `users` has the classes, `runner` the process that runs them, `settings` what it is told."""
