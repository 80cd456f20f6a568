"""Load by locust users.

`users` has the classes. `own` chooses who runs them: `stepped_users`, in the process of a scenario's clients, simulated
or not, or locust itself, in the process of `runner`, which `users_process` starts and listens to. `settings` is what
these two processes exchange.
"""
