package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/monitor"
)

func (c *durableCommand) backup(ctx context.Context) error {
	if *c.monitor != "" {
		return c.backupOfRunning(ctx)
	}
	if *c.to == "" {
		return misused(c.fs, "where to? Give --to FOLDER")
	}
	log, err := c.log()
	if err != nil {
		return err
	}
	return c.copy(ctx, log, disklog.Dir(*c.to))
}

// backupOfRunning asks a running process for a backup, since no other process can open its folder. It
// waits until the backup is complete, and ends the backup if ctx ends.
func (c *durableCommand) backupOfRunning(ctx context.Context) error {
	if len(c.args) > 0 || *c.to != "" || *c.kept.state != "" || len(c.kept.servers) > 0 {
		return misused(c.fs, "--monitor names a process, which knows what it keeps and where its backups are: give nothing else")
	}
	status, text, err := apiClient{base: *c.monitor}.do(ctx, http.MethodPost, "/backup", nil)
	switch {
	case err != nil:
		return fmt.Errorf("%w; is 'millrace serve' running with --monitor at %s?", err, *c.monitor)
	case status == http.StatusNotFound:
		return fmt.Errorf("no backups are made at %s: start 'millrace serve' with --backups DIR", *c.monitor)
	case status != http.StatusCreated:
		return fmt.Errorf("backup: %s", problemIn(status, text))
	}
	var made monitor.Made
	if err := json.Unmarshal(text, &made); err != nil {
		return fmt.Errorf("the answer of %s is no backup: %w", *c.monitor, err)
	}
	checks := make([]durable.PartitionCheck, len(made.Partitions))
	for i, p := range made.Partitions {
		checks[i] = durable.PartitionCheck{Partition: p.Partition, From: p.From, Last: p.Last, Snapshot: p.Snapshot, Messages: p.Messages, Steps: p.Steps, Waiting: p.Waiting}
	}
	printChecks(checks)
	_, err = fmt.Fprintf(stdout, "copied to %s, as the history %s\n", made.Folder, made.Identity)
	return err
}
