"""Load by locust: `users` has the classes, `runner` is the process that runs them, `users_process` starts that process
and listens to it, `settings` is what travels between the two.
"""
