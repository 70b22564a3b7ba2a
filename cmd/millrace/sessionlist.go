package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/plain"
)

const sessionsUsage = `usage: millrace sessions [flags]

Lists the sessions of a running 'millrace serve': their names, for 'millrace chat', who their users are, what goes on in them, how many
messages they have and what their models have read and written, in tokens where the service counts them. Sessions that it has
forgotten, and those of other processes that share the state, are not listed.

`

// listSessions is the command 'millrace sessions'.
func listSessions(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("sessions", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(fs.Output(), sessionsUsage); fs.PrintDefaults() }
	api := fs.String("api", "http://127.0.0.1:7341", "`URL` of the API of the runtime")
	folder := fs.String("state", "state", "`folder` of that runtime, which has the token of its API")
	tokenFile := fs.String("token-file", "", "`file` with the token, if it is not in that folder")
	user := fs.String("user", "", "only those of the user of this `name`")
	open := fs.Bool("open", false, "only those that are not closed")
	threads := fs.Bool("threads", false, "also the threads that sessions have begun")
	limit := fs.Int("limit", 1000, "how many are listed at most")
	after := fs.String("after", "", "where to begin: the `place` that a shorter list has ended with")
	asJSON := fs.Bool("json", false, "print each as a line of JSON")
	if err := parse(fs, args); err != nil {
		return err
	}
	switch {
	case fs.NArg() > 0:
		return misused(fs, "what is %s?", strings.Join(fs.Args(), " "))
	case *limit < 1:
		return misused(fs, "--limit must be positive")
	}
	token, err := findToken(*tokenFile, *folder)
	if err != nil {
		return err
	}
	query, list := url.Values{}, "sessions"
	if *user != "" {
		query.Set("user", *user)
	}
	if *open {
		query.Set("state", "open")
	}
	if *threads {
		list = "threads"
	}
	t := newReport(nil, nil, nil)
	t.row(strings.TrimSuffix(list, "s"), "user", "model", "state", "messages", "pending", "read", "written")
	for left := *limit; ; {
		query.Set("limit", strconv.Itoa(min(left, mostPage)))
		query.Set("after", *after)
		page, next, err := listPage(ctx, apiClient{*api, token}, list, query)
		if err != nil {
			return fmt.Errorf("%w; is 'millrace serve' running at %s?", err, *api)
		}
		for _, line := range page {
			if *asJSON {
				fmt.Fprintf(stdout, "%s\n", plain.JSON(line))
				continue
			}
			var s threadBody
			if err := json.Unmarshal(line, &s); err != nil {
				return err
			}
			t.row(s.ID, cmp.Or(s.UserID, "-"), cmp.Or(s.Model, "-"), s.State, s.Messages, s.Pending, s.Usage.Input, s.Usage.Output)
		}
		*after = next
		if left -= len(page); next == "" || left <= 0 {
			break
		}
	}
	if !*asJSON {
		if err := t.flush(stdout); err != nil {
			return err
		}
	}
	if *after != "" {
		fmt.Fprintf(stderr, "millrace sessions: there are more: --after %s\n", *after)
	}
	return nil
}

// listPage returns a page of a list of the API, and where the next page begins, or "" if there
// is none.
func listPage(ctx context.Context, client apiClient, list string, query url.Values) (page []json.RawMessage, next string, err error) {
	status, text, err := client.do(ctx, http.MethodGet, "/"+list+"?"+query.Encode(), nil)
	if err != nil {
		return nil, "", err
	}
	if status != http.StatusOK {
		return nil, "", errors.New(problemIn(status, text))
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(text, &body); err != nil {
		return nil, "", err
	}
	if at := body["next"]; at != nil {
		if err := json.Unmarshal(at, &next); err != nil {
			return nil, "", err
		}
	}
	return page, next, json.Unmarshal(body[list], &page)
}
