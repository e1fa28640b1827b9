# What the demo's workers run in: the scripted agent. The Go toolchain is mounted, the worker is copied in.
FROM scratch
COPY demo-agent /demo-agent
