"""What does `make demo` do? All of the product's main job, in one go.

Database, users, web server and worker are started; an agent is uploaded over the HTTP
API, its build followed live, and the deployed agent called. Whatever was started is
stopped again at the end.
"""
