# The director, and the worker binary that the director copies into containers. The base image needs only git and CA
# certificates.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
COPY director worker /usr/local/bin/
ENV RETAKE_CONFIG=/etc/retake/config.toml
ENTRYPOINT ["/usr/local/bin/director"]
CMD ["run", "-c", "/etc/retake/config.toml"]
