package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/millrace/millrace/dataflow/durable/monitor"
)

// quarantine sends the request to a running flow, since only its program can
// handle a record.
func (c *durableCommand) quarantine(ctx context.Context) error {
	do := "list"
	if len(c.args) > 0 {
		do = c.args[0]
	}
	method, path, want := http.MethodGet, "/quarantine", http.StatusOK
	switch {
	case do == "list" && len(c.args) <= 1:
	case (do == "retry" || do == "drop") && len(c.args) == 3:
		partition, err := strconv.Atoi(c.args[1])
		id, e := strconv.ParseUint(c.args[2], 10, 64)
		if err != nil || e != nil {
			return misused(c.fs, "a record is named by two numbers, of its partition and of itself: see list")
		}
		method, path, want = http.MethodPost, fmt.Sprintf("/quarantine/%d/%d/%s", partition, id, do), http.StatusNoContent
	default:
		return misused(c.fs, "quarantine list, or retry or drop with the numbers of a partition and a record?")
	}
	token, err := findToken(*c.tokenFile, *c.kept.state)
	if err != nil {
		return err
	}
	status, text, err := apiClient{*c.api, token}.do(ctx, method, path, nil)
	switch {
	case err != nil:
		return fmt.Errorf("%w; is 'millrace serve' running at %s?", err, *c.api)
	case status != want:
		return fmt.Errorf("%s: %s", do, problemIn(status, text))
	case do != "list":
		return nil
	}
	var all []monitor.Letter
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("the answer of %s is no list: %w", *c.api, err)
	}
	fmt.Fprintf(stdout, "partition  record  behind  since                 input, operator, reason\n")
	for _, l := range all {
		fmt.Fprintf(stdout, "%9d %7d %7d  %-20s  %q, %q, %q\n", l.Partition, l.ID, l.Behind, l.At.UTC().Format(time.RFC3339), l.Input, l.Operator, l.Reason)
	}
	return nil
}
