package durable

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// upgrades are three successive programs, each with the changes that it needs to continue from
// the one before.
var upgrades = []struct {
	build func(*dataflow.Flow) upgradePorts
	lines []Change
}{
	{build: upgraded(plainSums)},
	{ // another input and an operator before, and a name
		build: upgraded(func(f *dataflow.Flow, in votesStream, p *upgradePorts) {
			extra, more := keyedstream.Input[string, int](dataflow.At[server](f), "extra")
			p.extra = extra
			p.counts = keyedsingleton.Output(keyedstream.First(more), "counts")
			namedSums(f, keyedstream.Map(in, func(v int) int { return v }), p)
		}),
		lines: []Change{Was("sum", "keyedstream.FoldEarlyStop[table(string,early durable.sum)]@{input votes}")},
	},
	{ // an additional field, and without the second input
		build: upgraded(moreFields()),
		lines: []Change{Drop("output counts"), Drop("keyedstream.First[table(string,)]@{input extra}"), DropRecords("input extra")},
	},
}

// perVersion is the number of keys. Each version sends one value to each key, and the third
// value completes the sum of a key.
const perVersion = 20

// TestVersions upgrades a running program over three versions on a log in a folder. Each version
// continues the sums of the one before. The process is stopped, or killed as soon as all its
// sends are acknowledged. Each version starts twice.
func TestVersions(t *testing.T) {
	if dir := os.Getenv("MILLRACE_VERSIONS_DIR"); dir != "" {
		runVersion(t, dir, os.Getenv("MILLRACE_VERSION"))
		return
	}
	for _, kill := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%v", kill), func(t *testing.T) {
			dir := t.TempDir()
			for v := range upgrades {
				for life := range 2 {
					lifeOf(t, dir, fmt.Sprint(v, " ", life), kill)
				}
			}
			app := start(t, nil, upgrades[2].build, Options{Log: disklog.Dir(dir)})
			defer stop(t, app)
			for k := range perVersion {
				await(t, app.Ports.sums, fmt.Sprint("key ", k), 1+10+100)
			}
		})
	}
}

// lifeOf runs one process until it has made all its sends.
func lifeOf(t *testing.T, dir, version string, kill bool) {
	t.Helper()
	cmd, in, out := startTest(t, "TestVersions", "MILLRACE_VERSIONS_DIR="+dir, "MILLRACE_VERSION="+version)
	ready, said := false, ""
	for lines := bufio.NewScanner(out); !ready && lines.Scan(); {
		ready = lines.Text() == "acknowledged"
		said += lines.Text() + "\n"
	}
	if ready && kill {
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	in.Close()
	rest, _ := io.ReadAll(out)
	if err := cmd.Wait(); !ready || err != nil && !kill {
		t.Fatalf("version %s: %v\n%s%s", version, err, said, rest)
	}
}

// startTest starts a process that runs a test of this package with additional environment
// variables.
func startTest(t *testing.T, name string, env ...string) (cmd *exec.Cmd, in io.WriteCloser, out io.Reader) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+name+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if out, err = cmd.StdoutPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd, in, out
}

// runVersion is the main function of the child process.
func runVersion(t *testing.T, dir, which string) {
	v, err := strconv.Atoi(strings.Fields(which)[0])
	if err != nil {
		t.Fatal(err)
	}
	options := Options{Log: disklog.Dir(dir), Upgrade: upgrades[v].lines}
	if strings.Fields(which)[1] == "1" {
		options.Upgrade = nil // the first life has upgraded the history
	}
	app, err := Start(t.Context(), upgrades[v].build, quiet(options))
	if err != nil {
		t.Fatal(err)
	}
	value := []int{1, 10, 100}[v]
	for k := range perVersion { // both lives send the same; the second time it is a repeat
		if err := app.Ports.votes.SendNumbered(t.Context(), fmt.Sprint("key ", k), uint64(v), value); err != nil {
			t.Fatal(err)
		}
	}
	if extra := app.Ports.extra; extra != nil {
		if err := extra.Send(t.Context(), "extra", 1); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("acknowledged")
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or until its input is closed
	if err := app.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
}
