"""Load by locust users. `users` has the classes; `own` chooses who drives them: `stepped_users` in the process of the
clients of a scenario, simulated or not, or locust itself in the process of `runner`, which `users_process` starts and
listens to. `settings` is what travels between these two.
"""
