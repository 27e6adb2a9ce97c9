"""How good translations are: metrics, test sets, significance, reports; is z in use?"""
