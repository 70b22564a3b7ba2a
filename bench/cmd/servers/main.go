// Command servers compares millrace serve and millrace tool with bare handlers that do the same work on the wire, and makes the
// table of servers in bench/README.md.
//
//	go run ./cmd/servers -readme README.md
//	go run ./cmd/servers -only tool -callers 64
//	go run ./cmd/servers -millrace /tmp/new -than /tmp/old -callers 64
//
// Everything is in processes of its own on this machine: the command line of Millrace, the bare handlers, and this process, which
// makes the calls. It needs /proc, so it runs on Linux only.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/millrace/millrace/bench/internal/results"
)

// A config is what the flags say.
type config struct {
	as, tool string // the role of a process that this program starts: see bare.go

	only, root, readme, disk, memory string
	millrace, than                   string
	callers                          []int
	rounds                           int
	warm, lasts                      time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "servers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var c config
	var callers string
	flag.StringVar(&c.as, "as", "", "be a bare handler: `host` or tool; for this program itself")
	flag.StringVar(&c.tool, "tool", "", "`URL` of the tool server of -as host")
	flag.StringVar(&c.only, "only", "", "measure only `serve` or tool")
	flag.StringVar(&c.root, "root", "..", "`folder` of the repository, where millrace is built")
	flag.StringVar(&c.readme, "readme", "", "put the table into this `file`")
	flag.StringVar(&c.disk, "disk", os.TempDir(), "`folder` on a disk, below which state is kept")
	flag.StringVar(&c.memory, "memory", "/dev/shm", "`folder` in a file system in memory, below which millrace serve keeps its state once more; empty leaves this out")
	flag.StringVar(&c.millrace, "millrace", "", "measure this `program`, which is built already")
	flag.StringVar(&c.than, "than", "", "measure this `program` as well, an earlier millrace")
	flag.StringVar(&callers, "callers", "1,8,64", "how `many` calls are made at once, separated by commas")
	flag.IntVar(&c.rounds, "rounds", 5, "how many `times` each form is measured")
	flag.DurationVar(&c.warm, "warm", time.Second, "how `long` calls are made before the measurement")
	flag.DurationVar(&c.lasts, "lasts", 3*time.Second, "how `long` a measurement takes")
	flag.Parse()
	switch c.as {
	case "":
	case "host":
		return beHost(c.tool)
	case "tool":
		return beTool()
	default:
		return fmt.Errorf("there is no bare handler %q", c.as)
	}
	for text := range strings.SplitSeq(callers, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-callers: %q is not a number of callers", text)
		}
		c.callers = append(c.callers, n)
	}
	if c.millrace == "" {
		dir, err := os.MkdirTemp("", "millrace-servers-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		c.millrace = filepath.Join(dir, "millrace")
		if err := build(ctx, c.root, c.millrace); err != nil {
			return err
		}
	}
	text, err := measureAll(ctx, c)
	if err != nil {
		return err
	}
	fmt.Print(text)
	if c.readme != "" {
		return results.Insert(c.readme, "servers", text)
	}
	return nil
}

// build builds the command line of Millrace.
func build(ctx context.Context, root, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/millrace")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build ./cmd/millrace: %w", err)
	}
	return nil
}

// measureAll measures each form in turn, round after round, and returns the table.
func measureAll(ctx context.Context, c config) (string, error) {
	t := table{head: fmt.Sprintf("%s, %s/%s, %d processors", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))}
	for _, of := range []struct {
		server string
		forms  []form
	}{{"serve", serveForms(c)}, {"tool", toolForms(c)}} {
		if c.only != "" && c.only != of.server {
			continue
		}
		for _, callers := range c.callers {
			samples := make([][]sample, len(of.forms))
			for round := range c.rounds {
				for k := range of.forms {
					i := (k + round) % len(of.forms)
					s, err := measure(ctx, c, of.forms[i], callers)
					if err != nil {
						return "", fmt.Errorf("%s, %s, %d callers: %w", of.server, of.forms[i].name, callers, err)
					}
					fmt.Fprintf(os.Stderr, "%s %s callers=%d round=%d: %v\n", of.server, of.forms[i].name, callers, round+1, s)
					samples[i] = append(samples[i], s)
				}
			}
			for i, f := range of.forms {
				t.add(of.server, f, callers, samples[i], samples[0])
			}
		}
	}
	return t.String(), nil
}
