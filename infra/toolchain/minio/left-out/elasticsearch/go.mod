module github.com/elastic/go-elasticsearch/v7

go 1.25.0
