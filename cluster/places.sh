# Where studies are kept. Read by the nodes; on your own machine: . cluster/places.sh
export SENTUNE_STORAGE=s3://my-studies/studies  # change: gs://... on Google Cloud
export SENTUNE_DATABASE=postgresql+psycopg2://sentune@my-database:5432  # change: no password here
export SENTUNE_OPTUNA=$SENTUNE_DATABASE/optuna
export SENTUNE_TRACKING=http://127.0.0.1:5000
