package historycmd_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/historycmd"
	"github.com/millrace/millrace/dataflow/recordings"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type bank struct{ dataflow.Process }

type account struct{ Bank, Number int }

type ports struct {
	in  *dataflow.KeyedInputPort[account, int]
	out *dataflow.EntryOutputPort[account, int]
}

func build(f *dataflow.Flow) ports {
	in, paid := keyedstream.Input[account, int](dataflow.At[bank](f), "paid")
	dataflow.Named("total", keyedstream.Sum(paid))
	return ports{in, keyedsingleton.Output(keyedstream.First(paid), "first")}
}

// kept runs the flow for five payments and returns the options of its history.
func kept(t *testing.T) durable.Options {
	t.Helper()
	o := durable.Options{Name: "bank", Log: disklog.Dir(filepath.Join(t.TempDir(), "log")), KeepFor: durable.Forever, Logger: slog.New(slog.DiscardHandler)}
	app, err := durable.Start(t.Context(), build, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		to := account{1, i % 2}
		if err := app.Ports.in.Send(t.Context(), to, 10*i); err != nil {
			t.Fatal(err)
		}
		if _, err := app.Ports.out.Await(t.Context(), to); err != nil {
			t.Fatal(err)
		}
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	return o
}

// look runs the command and returns what it prints.
func look(t *testing.T, o durable.Options, args ...string) (out, told string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := historycmd.Of("bank log", build, o)
	c.Stdout, c.Stderr = &stdout, &stderr
	err = c.Run(t.Context(), args)
	return stdout.String(), stderr.String(), err
}

func TestCommands(t *testing.T) {
	o := kept(t)
	file, test := filepath.Join(t.TempDir(), "bank.mrh"), filepath.Join(t.TempDir(), "bank_test.go")
	for _, x := range []struct {
		args string
		want string // a pattern
	}{
		{"list", `(?m)^ +0 +5 +\d+ +\d+ +\d+ +\d+$`},
		{"show", `(?s)step 1 at .*Output first.*\{Bank:1 Number:1\}: 10`},
		{"show --from 2", `^step [2-9]`},
		{"replay", `(?s)Sum.*table\(.*account,int\)\n +\{Bank:1 Number:0\}: 60\n +\{Bank:1 Number:1\}: 40`},
		{`key historycmd_test.account {"Bank":1,"Number":1}`, `(?s)^partition 0 step \d+ at .*\+ 1 keyedstream.Sum total \(historycmd_test.go:\d+\) table\(.*\): 10\n.*partition 0 step \d+ at .*\+ 1 keyedstream.Sum total .*: 40\n`},
		{`key historycmd_test.account {"Bank":1,"Number":1} --partition 0 --from 1`, `: 40`},
		{`key historycmd_test.account {"Bank":9}`, `^no operator remembered {"Bank":9}\n$`},
		{`diff --from 1`, `(?s)^partition 0 from step 1 at \S+ to step \d+ at .*\n  \+ 1 keyedstream.Sum total \(historycmd_test.go:\d+\) table\(.*\): \{Bank:1 Number:0\}: 60\n  \+ .* \{Bank:1 Number:1\}: 40\n`},
		{`diff --from 1 --most 1`, `and \d+ more: see --most\n$`},
		{`diff historycmd_test.account {"Bank":1,"Number":1} --from 1`, `: 40\n`},
		{`diff historycmd_test.account {"Bank":9} --from 1 --most -1`, `nothing is otherwise\n$`},
		{"export " + file, `^$`},
		{"test " + test, `^$`},
	} {
		out, told, err := look(t, o, strings.Fields(x.args)...)
		if err != nil || told != "" || !regexp.MustCompile(x.want).MatchString(out) {
			t.Errorf("%s: %v %s\n%s, want\n%s", x.args, err, told, out, x.want)
		}
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := recordings.Read(f); err != nil {
		t.Errorf("what was exported: %v", err)
	}
	if source, err := os.ReadFile(test); err != nil || !strings.Contains(string(source), "build(s.Flow())") {
		t.Errorf("the test is %s, %v", source, err)
	}
}

func TestMisuse(t *testing.T) {
	o := kept(t)
	for _, x := range []struct {
		args, told, err string
		is              error
	}{
		{"", "list, show, replay, key, diff, export or test?", "", historycmd.ErrUsage},
		{"shew", `"shew" is none of`, "", historycmd.ErrUsage},
		{"--help", "usage: bank log list", "", flag.ErrHelp},
		{"list --help", "usage: bank log list", "", flag.ErrHelp},
		{"list more", "list has 1 arguments besides flags, want 0", "", historycmd.ErrUsage},
		{"key historycmd_test.account", "key has 1 arguments besides flags, want 2", "", historycmd.ErrUsage},
		{"diff", "diff needs --from", "", historycmd.ErrUsage},
		{"diff string --from 1", "diff has 1 arguments besides flags, want 2", "", historycmd.ErrUsage},
		{"diff string x --from 1", "", "the types are historycmd_test.account", nil},
		{"diff --from 99", "", "has no step 99", nil},
		{"test " + filepath.Join(t.TempDir(), "x") + " --to 99", "", "has no step 99", nil},
		{"show --form 3", "flag provided but not defined", "", historycmd.ErrUsage},
		{"show --partition 7", "", "there is no partition 7, only 1 of them", nil},
		{"key string x", "", "the types are historycmd_test.account", nil},
		{"key historycmd_test.account x", "", `"x" is not of type historycmd_test.account in JSON`, nil},
		{"replay --to 99", "", "has no step 99", nil},
		{"export " + t.TempDir(), "", "exists", nil},
	} {
		_, told, err := look(t, o, strings.Fields(x.args)...)
		if err == nil || !strings.Contains(told, x.told) || !strings.Contains(err.Error(), x.err) || x.is != nil && !errors.Is(err, x.is) {
			t.Errorf("%s: %v, told %q", x.args, err, told)
		}
		if want := map[error]int{flag.ErrHelp: 0, historycmd.ErrUsage: 2, nil: 1}[x.is]; historycmd.ExitCode(err) != want {
			t.Errorf("%s ends with %d, want %d", x.args, historycmd.ExitCode(err), want)
		}
	}
	none := o
	none.Log = disklog.Dir(filepath.Join(t.TempDir(), "none"))
	if _, _, err := look(t, none, "list"); err == nil {
		t.Error("a history that is not there is opened")
	}
	if historycmd.ExitCode(nil) != 0 {
		t.Error("no error is a failure")
	}
}

// A program passes its flow and gets the command.
func ExampleOf() {
	err := historycmd.Of("bank log", build, durable.Options{Name: "bank", Log: disklog.Dir("/nowhere/log")}).Run(context.Background(), []string{"list", "more"})
	fmt.Println(historycmd.ExitCode(err))
	// Output:
	// 2
}

var update = flag.Bool("update", false, "rewrite the recording in testdata and the test that reads it")

// TestExportedTest checks that the command writes partition0_step9_test.go of this package with the same bytes, and exports the
// recording that it reads.
func TestExportedTest(t *testing.T) {
	o := kept(t)
	const name = "partition0_step9"
	recording, source := filepath.Join("testdata", name+".mrh"), name+"_test.go"
	for command, file := range map[string]string{"export": recording, "test": source} {
		is := filepath.Join(t.TempDir(), "file")
		if _, told, err := look(t, o, command, is, "--to", "9"); err != nil {
			t.Fatal(err, told)
		}
		data, err := os.ReadFile(is)
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(file, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if was, err := os.ReadFile(file); err != nil || command == "test" && !bytes.Equal(was, data) || len(was) == 0 { // recordings contain times
			t.Errorf("%s writes %v, and the file has:\n%s, want\n%s", command, err, was, data)
		}
	}
}
