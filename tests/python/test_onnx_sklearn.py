"""scikit-learn's estimators by way of skl2onnx: their predictions, from the ONNX file."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn import (
    cluster,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_selection,
    impute,
    linear_model,
    naive_bayes,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)

from pycandle import load_model

CLASSIFIERS = {
    "logistic": linear_model.LogisticRegression(),
    "logistic_cv": linear_model.LogisticRegressionCV(cv=2),
    "ridge_classifier": linear_model.RidgeClassifier(),
    "perceptron": linear_model.Perceptron(),
    "sgd_classifier": linear_model.SGDClassifier(loss="log_loss"),
    "tree_classifier": tree.DecisionTreeClassifier(max_depth=5),
    "extra_tree_classifier": tree.ExtraTreeClassifier(max_depth=5),
    "forest_classifier": ensemble.RandomForestClassifier(8, max_depth=4),
    "extra_trees_classifier": ensemble.ExtraTreesClassifier(8, max_depth=4),
    "boosted_classifier": ensemble.GradientBoostingClassifier(n_estimators=8),
    "gaussian_bayes": naive_bayes.GaussianNB(),
    "linear_discriminant": discriminant_analysis.LinearDiscriminantAnalysis(),
    "quadratic_discriminant": discriminant_analysis.QuadraticDiscriminantAnalysis(),
    "network_classifier": neural_network.MLPClassifier((8,), max_iter=50),
    "scaled_logistic": pipeline.make_pipeline(
        preprocessing.StandardScaler(), linear_model.LogisticRegression()
    ),
}
REGRESSORS = {
    "linear": linear_model.LinearRegression(),
    "ridge": linear_model.Ridge(),
    "lasso": linear_model.Lasso(0.01),
    "elastic_net": linear_model.ElasticNet(0.01),
    "huber": linear_model.HuberRegressor(),
    "bayesian_ridge": linear_model.BayesianRidge(),
    "tree_regressor": tree.DecisionTreeRegressor(max_depth=5),
    "forest_regressor": ensemble.RandomForestRegressor(8, max_depth=4),
    "boosted_regressor": ensemble.GradientBoostingRegressor(n_estimators=8),
    "svr": svm.SVR(),
    "svr_polynomial": svm.SVR(kernel="poly"),
    "network_regressor": neural_network.MLPRegressor(hidden_layer_sizes=(8,), max_iter=50),
    "imputed_polynomial": pipeline.make_pipeline(
        impute.SimpleImputer(), preprocessing.PolynomialFeatures(2), linear_model.Ridge()
    ),
}
TRANSFORMERS = {
    "min_max": preprocessing.MinMaxScaler(),
    "robust": preprocessing.RobustScaler(),
    "normalizer": preprocessing.Normalizer(),
    "binarizer": preprocessing.Binarizer(threshold=0.2),
    "pca": decomposition.PCA(3),
    "k_means": cluster.KMeans(3, n_init=2, random_state=0),
    "variance": feature_selection.VarianceThreshold(0.1),
}
ALL = {**CLASSIFIERS, **REGRESSORS, **TRANSFORMERS}


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((120, 6)).astype("f4")
    target = (x[:, 0] * 2 - x[:, 1] + 0.1 * rng.standard_normal(120)).astype("f4")
    return x, target, np.digitize(target, [-1, 1])


@pytest.mark.full
@pytest.mark.parametrize("name", ALL)
def test_predictions_are_scikit_learns(name, tmp_path) -> None:
    from skl2onnx import to_onnx

    x, target, labels = data()
    estimator = ALL[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(x, labels if name in CLASSIFIERS else target)
        options = {"zipmap": False} if name in CLASSIFIERS else {}
        proto = to_onnx(estimator, x[:1], options={id(estimator): options} if options else None)
    path = tmp_path / f"{name}.onnx"
    path.write_bytes(proto.SerializeToString())
    model = load_model(path)
    for rows in (1, 37):
        found = list(model.forward(X=x[:rows]).values())
        if name in CLASSIFIERS:
            np.testing.assert_array_equal(found[0].ravel(), estimator.predict(x[:rows]))
            if hasattr(estimator, "predict_proba"):
                np.testing.assert_allclose(found[1], estimator.predict_proba(x[:rows]), atol=2e-5)
        elif name in REGRESSORS:
            np.testing.assert_allclose(found[0].ravel(), estimator.predict(x[:rows]), atol=2e-4)
        else:
            scores = found[-1] if name == "k_means" else found[0]
            np.testing.assert_allclose(scores, estimator.transform(x[:rows]), atol=2e-4)
