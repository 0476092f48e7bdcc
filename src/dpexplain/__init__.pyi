# The public names, once: editors and type checkers read this file, and so does __init__.py, which imports a name when
# somebody asks for it.
from dpexplain import audit as audit
from dpexplain import calculators as calculators
from dpexplain import design as design
from dpexplain import errors as errors
from dpexplain import requests as requests
from dpexplain import results as results
from dpexplain.core.budget import Budget as Budget
from dpexplain.core.domain import Categorical as Categorical
from dpexplain.core.domain import Numeric as Numeric
from dpexplain.core.sensitivity import Unit as Unit
from dpexplain.data.domain_file import Domain as Domain
from dpexplain.data.table import PrivateTable as PrivateTable
from dpexplain.engines import progress as progress
from dpexplain.errors import BudgetError as BudgetError
from dpexplain.errors import DpexplainError as DpexplainError
from dpexplain.errors import InputError as InputError
from dpexplain.errors import ReleaseLost as ReleaseLost
from dpexplain.ledger import open_ledger as open_ledger
from dpexplain.methods.accumulated_effects.release import accumulated_effects as accumulated_effects
from dpexplain.methods.adaptive.release import AdaptiveExplainer as AdaptiveExplainer
from dpexplain.methods.clusters.release import explain_clusters as explain_clusters
from dpexplain.methods.generic_plot.release import generic_plot as generic_plot
from dpexplain.methods.influence.release import influence as influence
from dpexplain.methods.interaction_ranking.release import interaction_ranking as interaction_ranking
from dpexplain.methods.kmeans.release import dp_kmeans as dp_kmeans
from dpexplain.methods.local_explanation.release import local_explanation as local_explanation
from dpexplain.methods.local_sketch.release import local_sketch as local_sketch
from dpexplain.methods.marginals.release import marginals as marginals
from dpexplain.methods.partial_dependence.release import partial_dependence as partial_dependence
from dpexplain.methods.performance.release import performance as performance
from dpexplain.methods.permutation_importance.release import permutation_importance as permutation_importance
from dpexplain.methods.planning import plan as plan
from dpexplain.methods.posterior import posterior as posterior
from dpexplain.methods.quantiles.release import quantiles as quantiles
from dpexplain.methods.rank_aggregation.release import rank_aggregation as rank_aggregation
from dpexplain.methods.result import from_json as from_json
from dpexplain.methods.stand_in.release import stand_in as stand_in
from dpexplain.methods.transparency.release import transparency_report as transparency_report
from dpexplain.models import Model as Model
from dpexplain.models.clustering import Clustering as Clustering
from dpexplain.verification import verify as verify

__version__: str
