"""Private k-means: clusters that may be explained, because their centres were released."""

from dpexplain.methods.kmeans.request import KMeans
from dpexplain.methods.registry import Method, register

register(
    Method(
        name="dp-kmeans",
        request=KMeans,
        explain=".release:explain",
        outlook=".release:outlook",
        diagram=".release:diagram",
        results=(".result:ClusterCentres",),
        title="Clusters by k-means",
        lead="where the centres of clusters lie, and about how many rows each cluster has",
        takes=("stand-in",),
        worst_cases="dpexplain.audit.worst_cases.clusters:of_kmeans",
        home=__name__,
    )
)
