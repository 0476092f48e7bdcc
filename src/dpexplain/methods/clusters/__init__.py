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
        results=(".result:ClusterExplanation", ".sharp:SharpClusters"),
        command="clusters",
        summary="Explain clusters: the columns that tell each of them from the rest, with histograms.",
        about="The clustering is a function named in the project's [clustering], which must come from public "
        "knowledge or from a private release; or --kmeans finds one, paid from the same account. --stand-in makes "
        "--method posterior better by its synthetic rows, free.",
        example="--kmeans 5 --kmeans-epsilon 1 --epsilon 0.5",
        typed="dpexplain.cli.typed:labels",
        subject="dpexplain.cli.typed:clustering",
        long=True,
        title="Clusters",
        lead="for each cluster the columns that tell it from the rest, and how their values are spread inside and "
        "outside",
        takes=("stand-in",),
        takes_clustering=True,
        worst_cases="dpexplain.audit.worst_cases.clusters:of_clusters",
        home=__name__,
    )
)
