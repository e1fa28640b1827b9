# The image for the demo's workers, with the scripted agent. The director mounts the Go toolchain, and copies the worker
# program into the container.
FROM scratch
COPY demo-agent /demo-agent
