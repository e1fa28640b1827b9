# The image of the demo's workers, with the scripted agent. The Go toolchain is mounted, and the worker is copied in.
FROM scratch
COPY demo-agent /demo-agent
