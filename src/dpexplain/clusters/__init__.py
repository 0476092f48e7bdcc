"""Clusterings as functions, and differentially private explanations of them."""

from dpexplain.clusters.clustering import Clustering
from dpexplain.clusters.explain import ClustersRequest, explain_clusters
from dpexplain.clusters.kmeans import dp_kmeans

__all__ = ["Clustering", "ClustersRequest", "dp_kmeans", "explain_clusters"]
