"""For other programs: scikit-learn, AnnData, UMAP."""
