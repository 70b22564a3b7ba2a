package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/millrace/millrace/agentproto/conform"
	"github.com/millrace/millrace/internal/plain"
)

const conformUsage = `usage: millrace conform tool --profile FILE | --url URL [flags]
       millrace conform runtime --self | -- COMMAND [ARGUMENT]... [flags before --]
       millrace conform cases | roles

Runs the conformance cases of the agent tool protocol against a tool server or a
runtime, and reports which pass. A case that needs an operation or a setting that the
target does not have is not applicable, which is no pass.

  tool     a tool server. The profile, a JSON file, says which of its operations plays
           which role; with --url alone only the manifest can be tested.
  runtime  a runtime, which COMMAND starts; the path of a configuration is appended.
  cases    lists the cases
  roles    lists the roles, and what an operation does to play one

--self tests Millrace's own runtime. doc/conformance.md tells the rest.

The exit status is 0 if nothing failed that the baseline does not expect, 1 if
something did or if the baseline expects a failure that is none any more, and 2 if
the cases could not be run.

`

// conformance is the command that runs the conformance cases.
func conformance(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("conform", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(fs.Output(), conformUsage); fs.PrintDefaults() }
	if len(args) == 0 {
		return misused(fs, "tool or runtime?")
	}
	what, args := args[0], args[1:]
	c := conformRun{out: stdout}
	fs.BoolVar(&c.self, "self", false, "test Millrace's own runtime")
	fs.StringVar(&c.url, "url", "", "base `URL` of the tool server; replaces that of the profile")
	fs.StringVar(&c.profile, "profile", "", "`file` with the profile of the tool server")
	fs.StringVar(&c.opts.Run, "run", "", "only cases whose ids match the `regexp`, such as 'A0[1-4]'")
	fs.StringVar(&c.opts.Levels, "level", "", "only cases of these `levels`: letters of MSP")
	fs.IntVar(&c.opts.Parallel, "parallel", 0, "how `many` cases run at once; 0 for as many as is good")
	fs.DurationVar(&c.opts.Timeout, "timeout", 0, "`limit` for each case, instead of its own")
	fs.StringVar(&c.baseline, "baseline", "", "`file` with the cases that are expected to fail: an id and a reason on each line")
	fs.StringVar(&c.junit, "junit", "", "also write the report as JUnit XML to a `file`")
	fs.BoolVar(&c.json, "json", false, "print the report as JSON instead of a table")
	fs.BoolVar(&c.progress, "v", false, "tell each result on standard error when it is there")
	switch what {
	case "tool", "runtime":
	case "cases":
		return listCases(stdout)
	case "roles":
		return listRoles(stdout)
	case "-h", "-help", "--help", "help":
		fs.SetOutput(stdout)
		fs.Usage()
		return nil
	default:
		return misused(fs, "there is nothing to do for %q", what)
	}
	if err := parse(fs, args); err != nil {
		return err
	}
	err := c.run(ctx, what, fs.Args())
	if err == nil || errors.Is(err, errFailed) {
		return err
	}
	fmt.Fprintf(stderr, "millrace conform %s: %v\n", what, err)
	return errUsage
}

// A conformRun holds the flags.
type conformRun struct {
	self, json, progress          bool
	url, profile, baseline, junit string
	opts                          conform.Options
	out                           io.Writer
}

// run runs the cases of a side and writes the report. It returns errFailed if
// they failed.
func (c *conformRun) run(ctx context.Context, side string, command []string) error {
	if c.baseline != "" {
		f, err := os.Open(c.baseline)
		if err != nil {
			return err
		}
		defer f.Close()
		if c.opts.Baseline, err = conform.ReadBaseline(f); err != nil {
			return err
		}
	}
	if c.progress {
		c.opts.Progress = func(r conform.Result) {
			fmt.Fprintf(stderr, "%s %-16s %6.2fs  %s\n", r.ID, r.Status, r.Took.Seconds(), r.Action)
		}
	}
	test := c.tool
	if side == "runtime" {
		test = c.runtime
	}
	report, err := test(ctx, command)
	if report != nil {
		err = errors.Join(err, c.report(report))
	}
	if err == nil && report.ExitCode() != 0 {
		return errFailed
	}
	return err
}

// tool tests a tool server.
func (c *conformRun) tool(ctx context.Context, rest []string) (*conform.Report, error) {
	if len(rest) > 0 {
		return nil, fmt.Errorf("%q is one argument too many", rest[0])
	}
	if c.self {
		return nil, errors.New("--self is for a runtime: our own tool server is tested by the program agentproto/conform/selftest")
	}
	var target conform.ToolTarget
	switch {
	case c.profile != "":
		f, err := os.Open(c.profile)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if target.Profile, err = conform.ReadToolProfile(f); err != nil {
			return nil, err
		}
	case c.url == "":
		return nil, errors.New("say what to test: --profile FILE or --url URL")
	}
	if c.url != "" {
		target.Profile.URL = c.url
	}
	return conform.RunTool(ctx, target, c.opts)
}

// runtime tests a runtime.
func (c *conformRun) runtime(ctx context.Context, command []string) (*conform.Report, error) {
	if c.self {
		program, err := os.Executable()
		if err != nil {
			return nil, err
		}
		command = []string{program, "control"}
	}
	if len(command) == 0 {
		return nil, errors.New("say what to test: -- COMMAND or --self")
	}
	return conform.RunRuntime(ctx, conform.RuntimeCommand{Args: command}, c.opts)
}

// report writes the report to the outputs that the flags name.
func (c *conformRun) report(r *conform.Report) error {
	var err error
	if c.junit != "" {
		var f *os.File
		if f, err = os.Create(c.junit); err == nil {
			err = errors.Join(r.WriteJUnit(f), f.Close())
		}
	}
	if c.json {
		var text bytes.Buffer
		err = errors.Join(err, r.WriteJSON(&text))
		_, failed := c.out.Write(plain.JSON(text.Bytes()))
		return errors.Join(err, failed)
	}
	return errors.Join(err, r.WriteTable(c.out))
}

func listCases(w io.Writer) error {
	var b strings.Builder
	for _, c := range conform.Cases() {
		fmt.Fprintf(&b, "%s  %-3s  %s  §%-5s %s: %s\n", c.ID, c.Sides, c.Level, c.Section, c.Action, c.Expected)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func listRoles(w io.Writer) error {
	roles := conform.Roles()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(roles)) {
		fmt.Fprintf(&b, "%-10s %s\n", name, roles[name])
	}
	example, err := json.MarshalIndent(conform.ToolProfile{
		URL: "http://127.0.0.1:8801",
		Roles: map[string]conform.Role{
			"echo": {Operation: "echo", Arguments: json.RawMessage(`{"text":"$TEXT"}`)},
		},
	}, "", "  ")
	fmt.Fprintf(&b, "\nA profile with one of them:\n\n%s\n", example)
	_, werr := io.WriteString(w, b.String())
	return errors.Join(err, werr)
}
