# The image of the demo's workers, with the scripted agent. The director mounts the Go toolchain, and copies the worker
# into the container.
FROM scratch
COPY demo-agent /demo-agent
