// Command connectors compares sources and sinks with the raw clients of the same systems, and makes the table of connectors in
// bench/README.md.
//
//	go run ./cmd/connectors -readme README.md
//	go run ./cmd/connectors -only kafka -count 5
//
// It runs the benchmarks of the connectors' packages. Some of these are separate modules, so their clients are not dependencies
// of this one. Kafka and PostgreSQL have to be installed: .ci/kafka and .ci/postgres of the repository do that.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/bench/internal/results"
)

// A connector is a package whose benchmarks report their rate relative to the raw client's.
type connector struct {
	name    string
	targets map[string]float64 // for some benchmarks, the minimum relative to the raw client's rate
}

var connectors = []connector{
	{"kafka", map[string]float64{"Source/millrace=memory": 0.70, "Source/millrace=durable": 0.50}},
	{"postgres", map[string]float64{"Upsert/batch=1000": 0.80}},
	{"jetstream", nil},
	{"webhook", nil},
}

// ofRaw are the units in which the benchmarks report the relative rate.
var ofRaw = []string{"of-raw", "ratio"}

func main() {
	only := flag.String("only", "", "measure only the connector with this `name`")
	count := flag.Int("count", 3, "how often each benchmark runs")
	root := flag.String("root", "../dataflow/connect", "`folder` with the packages of connectors")
	readme := flag.String("readme", "", "put the table into this `file`")
	flag.Parse()
	var table strings.Builder
	fmt.Fprintf(&table, "%s, %s/%s, %d processors\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
	fmt.Fprint(&table, "\n| connector | benchmark | of the raw client's rate | quartiles | target | |\n|---|---|---:|---:|---:|---|\n")
	for _, c := range connectors {
		if *only != "" && *only != c.name {
			continue
		}
		out, err := run(filepath.Join(*root, c.name), *count)
		must(err)
		rows, err := rowsOf(c, out)
		must(err)
		table.WriteString(rows)
	}
	fmt.Print(table.String())
	if *readme != "" {
		must(results.Insert(*readme, "connectors", table.String()))
	}
}

// run runs the benchmarks of a package in its own module. They fail if the system to measure is missing.
func run(dir string, count int) ([]byte, error) {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", ".", "-benchtime", "2s", "-count", fmt.Sprint(count), "-timeout", "60m", ".")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "MILLRACE_REAL=require")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("benchmarks of %s: %w\n%s", dir, err, out)
	}
	return out, nil
}

// rowsOf returns the rows of a connector: one for each benchmark that reports a relative rate.
func rowsOf(c connector, out []byte) (string, error) {
	var order []string
	measured := map[string][]float64{}
	in := benchfmt.NewReader(bytes.NewReader(out), c.name)
	for in.Scan() {
		line, ok := in.Result().(*benchfmt.Result)
		if !ok {
			continue // a benchmark's log
		}
		for _, v := range line.Values {
			if !slices.Contains(ofRaw, v.Unit) {
				continue
			}
			name := processors.ReplaceAllString(string(line.Name), "")
			if measured[name] == nil {
				order = append(order, name)
			}
			measured[name] = append(measured[name], v.Value)
		}
	}
	if err := in.Err(); err != nil {
		return "", err
	}
	for name := range c.targets {
		if measured[name] == nil {
			return "", fmt.Errorf("package %s has no benchmark %s that says how it compares, but a target for it", c.name, name)
		}
	}
	var b strings.Builder
	for _, name := range order {
		q := ratio.SpreadOf(measured[name])
		target, verdict := "", ""
		if least, ok := c.targets[name]; ok {
			target, verdict = fmt.Sprintf("%.2f", least), "met"
			if q.Median < least {
				verdict = "**missed**"
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %.2f | %.2f–%.2f | %s | %s |\n", c.name, name, q.Median, q.Low, q.High, target, verdict)
	}
	return b.String(), nil
}

// processors matches the suffix of a benchmark's name that gives the number of processors, if there was more than one.
var processors = regexp.MustCompile(`-\d+$`)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "connectors:", err)
		os.Exit(1)
	}
}
