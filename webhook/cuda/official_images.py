"""Docker's official images of languages, systems and servers, none of which has CUDA.

Not every image in `library/` is known here, because a name without a namespace may also be one that was only loaded
into a node.
"""

WITHOUT_CUDA: frozenset[str] = frozenset(
    """
    almalinux alpine alt amazoncorretto amazonlinux archlinux bash busybox caddy cassandra centos cirros clojure
    composer consul couchdb crystal dart debian docker drupal eclipse-temurin elasticsearch elixir erlang fedora
    fluentd gcc ghost golang gradle groovy haproxy haskell hello-world httpd ibmjava influxdb java jetty joomla jruby
    julia kibana kong logstash mageia mariadb maven memcached mongo mongo-express mysql nats neo4j nextcloud nginx node
    openjdk opensuse oraclelinux perl photon php postgres pypy python r-base rabbitmq redis registry rethinkdb
    rockylinux ros ruby rust scratch solr sonarqube spark swift telegraf tomcat traefik ubuntu vault wordpress zookeeper
    """.split()  # noqa: SIM905  # a hundred lines of quotes say less
)

WITHOUT_CUDA_ANYWHERE: frozenset[str] = frozenset(
    """
    agnhost alpine busybox curl golang haproxy httpd mariadb memcached mongo mysql nginx node pause postgres python
    rabbitmq redis registry traefik
    """.split()  # noqa: SIM905  # as above
)
"""Names that mean the same in any organisation and registry: servers, and what Kubernetes is tested with (pause and
agnhost of registry.k8s.io). Languages and systems on which people build their own CUDA are left out. Python is not: its
CUDA comes with pip, and no name tells."""
