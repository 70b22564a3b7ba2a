// Command selftest runs the conformance cases against Millrace's own tool server. The server plays
// every role, in processes that are killed and restarted; the OAuth provider runs in this process.
// It is a separate program so that neither is part of the shipped one.
//
//	go run ./agentproto/conform/selftest [-run REGEXP] [-json] [-junit FILE] [-baseline FILE] [-v]
//
// The exit status is that of millrace conform.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/millrace/millrace/agentproto/conform"
	"github.com/millrace/millrace/agentproto/internal/undertest"
	"github.com/millrace/millrace/internal/plain"
)

// serveFlag makes this program one of the servers under test.
const serveFlag = "-serve"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status, err := run(ctx, os.Args[1:], plain.NewWriter(os.Stdout), plain.NewWriter(os.Stderr))
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(plain.NewWriter(os.Stderr), "selftest: %v\n", err)
	}
	os.Exit(status)
}

// run returns the exit status: 0 if nothing failed, 1 if something did, 2 if the cases could not be
// run.
func run(ctx context.Context, args []string, out, errs io.Writer) (status int, err error) {
	if len(args) == 2 && args[0] == serveFlag {
		if err := undertest.Serve(ctx, args[1], os.Stdin); err != nil {
			return 1, err
		}
		return 0, nil
	}
	var opts conform.Options
	fs := flag.NewFlagSet("selftest", flag.ContinueOnError)
	fs.SetOutput(errs)
	fs.StringVar(&opts.Run, "run", "", "only cases whose ids match the `regexp`")
	baseline := fs.String("baseline", "", "`file` with the cases that are expected to fail: an id and a reason on each line")
	junit := fs.String("junit", "", "also write the report as JUnit XML to a `file`")
	asJSON := fs.Bool("json", false, "print the report as JSON instead of a table")
	verbose := fs.Bool("v", false, "tell each result on standard error when it is there")
	if err := fs.Parse(args); err != nil {
		return 2, flag.ErrHelp // the flag package has printed the error
	}
	if *baseline != "" {
		f, err := os.Open(*baseline)
		if err != nil {
			return 2, err
		}
		defer f.Close()
		if opts.Baseline, err = conform.ReadBaseline(f); err != nil {
			return 2, err
		}
	}
	if *verbose {
		opts.Progress = func(r conform.Result) {
			fmt.Fprintf(errs, "%s %-16s %6.2fs  %s\n", r.ID, r.Status, r.Took.Seconds(), r.Action)
		}
	}
	report, err := test(ctx, opts)
	if err != nil {
		return 2, err
	}
	if *junit != "" {
		f, err := os.Create(*junit)
		if err != nil {
			return 2, err
		}
		if err := errors.Join(report.WriteJUnit(f), f.Close()); err != nil {
			return 2, err
		}
	}
	if !*asJSON {
		return report.ExitCode(), report.WriteTable(out)
	}
	var text bytes.Buffer
	if err := report.WriteJSON(&text); err != nil {
		return 2, err
	}
	_, err = out.Write(plain.JSON(text.Bytes()))
	return report.ExitCode(), err
}

// test runs the cases against copies of this program, started as other processes.
func test(ctx context.Context, opts conform.Options) (*conform.Report, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "millrace-selftest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	target, end, err := undertest.Prepare(folder, self, serveFlag)
	if err != nil {
		return nil, err
	}
	defer end()
	return conform.RunTool(ctx, target, opts)
}
