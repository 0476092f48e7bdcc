"""Explained clusters: which columns tell each cluster from the rest, and how their values are spread."""

from dpexplain.methods.clusters.request import Clusters
from dpexplain.methods.registry import Method, register

register(
    Method(
        name="clusters",
        request=Clusters,
        explain=".release:explain",
        outlook=".release:outlook",
        diagram=".release:diagram",
        results=(".result:ClusterExplanation",),
        command="clusters",
        title="Clusters",
        lead="for each cluster the columns that tell it from the rest, and how their values are spread inside and "
        "outside",
        takes_clustering=True,
        worst_cases="dpexplain.audit.worst_cases.clusters:of_clusters",
        home=__name__,
    )
)
