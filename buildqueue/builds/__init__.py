"""The domain: agents and connectors, how they are built, deployed and retired.

payloads     what a build job carries
results      what an executor must leave for a build to count
sources      where uploaded source is kept
versions     which version a build gets
submission   an upload becomes rows and a job
retirement   an agent is stopped or deleted
removal      the jobs that end its processes
hosts        where its processes may be
losthosts    what waits for one that is gone
deployed     what should run on a host
lifecycle    the one writer of build, version, deployment, agent and connector status
"""
