package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

const durableUsage = `usage: millrace durable check   LOG
       millrace durable verify  --state DIR
       millrace durable backup  LOG --to FOLDER
       millrace durable backup  --monitor URL
       millrace durable restore FOLDER --state DIR
       millrace durable salvage LOG --to FOLDER [--accept-loss TOKEN,TOKEN]
       millrace durable upgrade LOG [--watch]
       millrace durable quarantine list|retry|drop [PARTITION RECORD] --state DIR

Looks after what durable flows keep. LOG is a folder, of package disklog or of an embedded
NATS server, such as the --state of 'millrace serve', or a cluster, with --nats.

  check   reads everything and says whether it fits together: checksums, the chain of the
          steps, the records that they took, snapshots. It needs no program, so it works for
          the flow of any program
  verify  makes the steps of 'millrace serve' again and compares what they give, and what is
          remembered then, with what is kept; all of them if serve was started with
          --keep-for forever, else those since the last snapshot
  backup  copies LOG, as it is at one moment, to a new folder of package disklog, and checks both.
          With --monitor it asks a process that runs, 'millrace serve' with --backups DIR or any
          other program that serves monitor.Backup there, which does so in a new folder of DIR
  restore copies such a folder to where nothing is kept yet: the --state of 'millrace serve', a
          cluster, or with --disk another folder of package disklog. What is copied has
          an identity of its own, so processes that know what was there before are refused.
          Do not run both
  salvage makes a backup of what is left of a LOG that is damaged, to be restored. Without
          tokens it writes nothing, and says what would be left out and which token accepts that.
          A copy can have the --witness of what it was made of, which is emptied for it
  upgrade shows which member owns each partition, and which version of the program made its last
          step, and of each member which version it is, and which partitions it refuses and why.
          With --watch it shows that each second until all partitions are run by the newest
          version, which is that of the member that joined last
  quarantine
          lists the records that a program that runs could not handle, has it try one again,
          or has it forget one. It asks the API of 'millrace serve' at --api, or any other
          program that serves monitor.Quarantine there

Of LOG nothing is changed. A folder can be opened while no process has it open; on a cluster
the flow may run. The exit status is 1 if something is wrong.

`

// A durableCommand holds the flags of 'millrace durable'.
type durableCommand struct {
	fs             *flag.FlagSet
	kept           historyFlags
	to             *string
	accepted       *string
	disk           *string
	witness        func() durable.Witness
	monitor        *string
	watch          *bool
	api, tokenFile *string
	args           []string // after the flags
}

func durables(ctx context.Context, args []string) error {
	c := durableCommand{fs: flag.NewFlagSet("durable", flag.ContinueOnError)}
	c.fs.Usage = func() { fmt.Fprint(c.fs.Output(), durableUsage); c.fs.PrintDefaults() }
	c.kept.add(c.fs, "`folder` given to 'millrace serve'")
	c.to = c.fs.String("to", "", "`folder` that a backup is made in; it must not be there")
	c.accepted = c.fs.String("accept-loss", "", "`tokens` of the damage whose loss is accepted, with commas between them")
	c.witness = witnessFlag(c.fs)
	c.disk = c.fs.String("disk", "", "`folder` of package disklog to restore to, in place of --state")
	c.monitor = c.fs.String("monitor", "", "`URL` of the process that is to make a backup, such as http://127.0.0.1:9090, the --monitor of 'millrace serve'")
	c.watch = c.fs.Bool("watch", false, "show the upgrade each second until it is over")
	c.api = c.fs.String("api", "http://127.0.0.1:7341", "`URL` of the API of the program whose quarantine it is")
	c.tokenFile = c.fs.String("token-file", "", "`file` with the token of that API, if it is not in the --state folder")
	commands := map[string]func(*durableCommand, context.Context) error{
		"check": (*durableCommand).check, "verify": (*durableCommand).verify, "backup": (*durableCommand).backup, "restore": (*durableCommand).restore,
		"salvage": (*durableCommand).salvage, "upgrade": (*durableCommand).upgrade, "quarantine": (*durableCommand).quarantine,
	}
	if len(args) == 0 || commands[args[0]] == nil {
		if len(args) > 0 && strings.HasPrefix(args[0], "-") {
			return parse(c.fs, args)
		}
		return misused(c.fs, "check, verify, backup, restore, salvage, upgrade or quarantine?")
	}
	rest := args[1:]
	for len(rest) > 0 && !strings.HasPrefix(rest[0], "-") { // arguments may come before flags
		c.args, rest = append(c.args, rest[0]), rest[1:]
	}
	if err := parse(c.fs, rest); err != nil {
		return err
	}
	c.args = append(c.args, c.fs.Args()...)
	return commands[args[0]](&c, ctx)
}

// options returns the options for opening a log.
func (c *durableCommand) options(log journal.Opener) durable.Options {
	return durable.Options{
		Name: *c.kept.name, Log: log, Logger: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
}

// log returns the log that the one argument or the flags name.
func (c *durableCommand) log() (journal.Opener, error) {
	switch {
	case len(c.args) > 1:
		return nil, misused(c.fs, "what is %s?", strings.Join(c.args[1:], " "))
	case len(c.args) == 1 && (*c.kept.state != "" || len(c.kept.servers) > 0):
		return nil, misused(c.fs, "%s, or what the flags say?", c.args[0])
	case len(c.args) == 1:
		return folderLog(c.args[0])
	}
	return c.kept.opener(c.fs)
}

// folderLog returns the log in a folder, whatever its kind.
func folderLog(dir string) (journal.Opener, error) {
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	switch {
	case there("identity") || there("db"):
		return disklog.Dir(dir), nil
	case there("jetstream"):
		return natslog.Embedded(dir), nil
	case there("history"): // the folder of 'millrace serve'
		return natslog.Embedded(filepath.Join(dir, "history")), nil
	}
	return nil, fmt.Errorf("%w in %s: neither package disklog nor an embedded NATS server has made one there", durable.ErrMissing, dir)
}

func (c *durableCommand) check(ctx context.Context) error {
	log, err := c.log()
	if err != nil {
		return err
	}
	opts := c.options(log)
	opts.Witness = c.witness()
	all, err := durable.Check(ctx, opts)
	if len(all) == 0 {
		return err
	}
	printChecks(all)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, "everything fits together")
	return err
}

func (c *durableCommand) verify(ctx context.Context) error {
	if len(c.args) > 0 {
		return misused(c.fs, "what is %s? The history is that of 'millrace serve': give --state or --nats", strings.Join(c.args, " "))
	}
	log, err := c.kept.opener(c.fs)
	if err != nil {
		return err
	}
	h, err := host.OpenHistory(ctx, c.options(log), conversation.Limits{})
	if err != nil {
		return err
	}
	var errs []error
	for p := range h.Partitions() {
		v, err := h.Verify(ctx, p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		state := "no state was compared"
		if v.State {
			state = "the state at the snapshot is the same"
		}
		fmt.Fprintf(stdout, "partition %d: %d steps gave what they gave; %s\n", p, v.Steps, state)
	}
	return errors.Join(append(errs, h.Close())...)
}

func printChecks(all []durable.PartitionCheck) {
	fmt.Fprintf(stdout, "partition  messages     steps   waiting  last step  snapshot after\n")
	for _, p := range all {
		fmt.Fprintf(stdout, "%9d %9d %9d %9d %10d %15d\n", p.Partition, p.Messages, p.Steps, p.Waiting, p.Last, p.Snapshot)
	}
}

func (c *durableCommand) restore(ctx context.Context) error {
	if len(c.args) != 1 {
		return misused(c.fs, "which folder? It is named after the word restore")
	}
	from, err := folderLog(c.args[0])
	if err != nil {
		return err
	}
	if *c.disk != "" {
		return c.copy(ctx, from, disklog.Dir(*c.disk))
	}
	to, err := c.kept.opener(c.fs)
	if err != nil {
		return err
	}
	return c.copy(ctx, from, to)
}

func (c *durableCommand) copy(ctx context.Context, from, to journal.Opener) error {
	made, err := durable.Copy(ctx, c.options(from), to)
	if err != nil {
		return err
	}
	return printCopied(made, to)
}

func (c *durableCommand) salvage(ctx context.Context) error {
	if *c.to == "" {
		return misused(c.fs, "where to? Give --to FOLDER")
	}
	from, err := c.log()
	if err != nil {
		return err
	}
	var tokens []string
	if *c.accepted != "" {
		tokens = strings.Split(*c.accepted, ",")
	}
	to := disklog.Dir(*c.to)
	opts := c.options(from)
	opts.Witness = c.witness()
	made, err := durable.Salvage(ctx, opts, to, tokens...)
	verb := "is left out"
	if err != nil {
		verb = "would be left out"
	}
	for _, x := range made.Lost {
		fmt.Fprintf(stdout, "partition %d, of which %s, with the token %s:\n", x.Partition, verb, x.Token)
		for _, what := range x.Lost {
			fmt.Fprintf(stdout, "  %s\n", what)
		}
	}
	if err != nil {
		return err
	}
	return printCopied(made, to)
}

func printCopied(made durable.Copied, to journal.Opener) error {
	printChecks(made.Partitions)
	_, err := fmt.Fprintf(stdout, "copied to %s, as the history %s\n", to, made.Identity)
	return err
}
