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
