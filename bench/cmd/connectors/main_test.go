package main

import (
	"strings"
	"testing"
)

const output = `goos: linux
pkg: example.com/kafka
BenchmarkSource/raw-2         	       3	 500 ns/op	 900.0 krecords/s
BenchmarkSource/millrace=memory-2         	       3	 500 ns/op	 800.0 krecords/s	 0.90 of-raw
BenchmarkSource/millrace=durable-2         	       3	 500 ns/op	 800.0 krecords/s	 0.20 of-raw
something that a benchmark logs
BenchmarkSource/millrace=durable-2         	       3	 500 ns/op	 800.0 krecords/s	 0.40 of-raw
BenchmarkSource/millrace=durable-2         	       3	 500 ns/op	 800.0 krecords/s	 0.30 of-raw
PASS
`

func TestRows(t *testing.T) {
	rows, err := rowsOf(connectors[0], []byte(output))
	if err != nil {
		t.Fatal(err)
	}
	const want = `| kafka | Source/millrace=memory | 0.90 | 0.90–0.90 | 0.70 | met |
| kafka | Source/millrace=durable | 0.30 | 0.30–0.40 | 0.50 | **missed** |
`
	if rows != want {
		t.Errorf("rows are\n%s\nwant\n%s", rows, want)
	}
}

// TestMissingRow judges output in which a benchmark was renamed. Its target is then missing, which is an error.
func TestMissingRow(t *testing.T) {
	_, err := rowsOf(connectors[0], []byte(strings.ReplaceAll(output, "durable", "disk")))
	if err == nil || !strings.Contains(err.Error(), "Source/millrace=durable") {
		t.Errorf("the error is %v", err)
	}
}
