"""MCP connectors: servers of tools that owners upload, and that agents may call.

submission   a source becomes rows and a job
retirement   a connector is deleted
refreshing   it is asked for its tools again
removal      the jobs that end its processes
deployed     which of them should run on a host
"""
