module github.com/minio/console

go 1.25.0
