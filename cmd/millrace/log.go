package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"

	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/historycmd"
)

// logs is the command that looks at what 'millrace serve' keeps.
func logs(ctx context.Context, args []string) error {
	var kept historyFlags
	command := historycmd.Command{
		Name:  "millrace log",
		About: "Looks at what 'millrace serve' keeps: give its --state DIR, or the --nats servers of a cluster.",
		Flags: func(fs *flag.FlagSet) { kept.add(fs, "`folder` given to 'millrace serve'") },
		Open: func(ctx context.Context, fs *flag.FlagSet) (*durable.History, error) {
			log, err := kept.opener(fs)
			if err != nil {
				return nil, err
			}
			return host.OpenHistory(ctx, durable.Options{
				Name: *kept.name, Log: log, Logger: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError})),
			}, conversation.Limits{})
		},
		Stdout: stdout, Stderr: stderr,
	}
	err := command.Run(ctx, args)
	if errors.Is(err, historycmd.ErrUsage) {
		return errUsage
	}
	return err
}
