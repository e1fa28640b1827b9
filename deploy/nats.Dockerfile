# A NATS server from the module's dependency, for machines that cannot pull nats:2. It takes the same
# arguments.
FROM scratch
COPY nats-server /nats-server
ENTRYPOINT ["/nats-server"]
