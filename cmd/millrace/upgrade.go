package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/millrace/millrace/dataflow/durable"
)

// lookAgain is the interval of 'millrace durable upgrade -watch'.
const lookAgain = time.Second

// upgrade shows which programs run a flow: once, or repeatedly until the newest one runs all
// partitions.
func (c *durableCommand) upgrade(ctx context.Context) error {
	log, err := c.log()
	if err != nil {
		return err
	}
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		r, err := durable.Programs(ctx, c.options(log))
		if ctx.Err() != nil { // interrupted
			return nil
		}
		if err != nil {
			return err
		}
		if err := printRollout(stdout, r); err != nil {
			return err
		}
		if !*c.watch || r.Done() {
			var errs []error
			for _, p := range r.Partitions {
				errs = append(errs, p.Err)
			}
			return errors.Join(errs...)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
		fmt.Fprintln(stdout)
	}
}

// printRollout writes a line for each partition and each member, and what members refuse.
func printRollout(w io.Writer, r *durable.Rollout) error {
	orNone := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "partition\tlocation\towner\tlast step\tversion\tprogram")
	for _, p := range r.Partitions {
		fmt.Fprintf(table, "%d\t%s\t%s\t%d\t%s\t%s\n", p.Partition, orNone(p.Location), orNone(p.Owner), p.Step, orNone(p.Version), orNone(p.Program))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(r.Members) == 0 {
		_, err := fmt.Fprintln(w, "no process shares the flow now")
		return err
	}
	fmt.Fprintln(table, "\nmember\tversion\towns\trefuses")
	for _, m := range r.Members {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\n", m.ID, orNone(m.Version), len(m.Owns), len(m.Refuses))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, m := range r.Members {
		if len(m.Refuses) > 0 {
			fmt.Fprintf(w, "%s refuses partitions %v: %s\n", m.ID, m.Refuses, m.Why)
		}
	}
	if r.Done() {
		_, err := fmt.Fprintf(w, "all partitions are run by version %s\n", orNone(r.Newest()))
		return err
	}
	return nil
}
