package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/millrace/millrace/dataflow/connect"
)

// A Database says how to reach a database. When printed, it does not show its connection string, which may contain a password.
// No error of this package shows it either.
//
// A connection keeps state in its session, so a pooler in between must keep one server connection for each of its clients. A
// proxy in front of the primary must lead to the primary.
type Database struct {
	// DSN is a connection string of libpq: "host=… dbname=…" or "postgres://…". Missing parameters come from the environment
	// variables PGHOST, PGUSER and so on, and from the password file.
	DSN string

	// Configure changes the configuration from DSN before each connection, for example for TLS or a password that changes. Nil
	// changes nothing.
	Configure func(context.Context, *pgx.ConnConfig) error

	// Connected prepares each connection of a sink, for example by registering types. Nil does nothing.
	Connected func(context.Context, *pgx.Conn) error
}

// Format prints no part of the connection string.
func (d Database) Format(f fmt.State, _ rune) { io.WriteString(f, "postgres.Database") }

// MarshalJSON writes no part of the connection string.
func (d Database) MarshalJSON() ([]byte, error) { return []byte("{}"), nil }

// A private is embedded in types that contain a connection string or a password, and prints without it.
type private struct{}

func (private) Format(f fmt.State, _ rune) { io.WriteString(f, "postgres") }

var errDSN = errors.New("postgres: the connection string cannot be parsed; it is not shown because it may have a password")

// config parses the connection string. The passwords in it are secrets.
func (d Database) config(ctx context.Context) (*pgx.ConnConfig, secrets, error) {
	c, err := pgx.ParseConfig(d.DSN)
	if err != nil {
		return nil, nil, errDSN // the cause quotes parts of the string
	}
	if d.Configure != nil {
		if err := d.Configure(ctx, c); err != nil {
			return nil, nil, secretsOf(d.DSN, c).hide(fmt.Errorf("postgres: Configure: %w", err))
		}
	}
	return c, secretsOf(d.DSN, c), nil
}

// connect opens a connection for statements.
func (d Database) connect(ctx context.Context) (*pgx.Conn, secrets, error) {
	config, hidden, err := d.config(ctx)
	if err != nil {
		return nil, nil, err
	}
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, nil, passing(hidden.hide(fmt.Errorf("postgres: connect: %w", err)), true)
	}
	return c, hidden, nil
}

// secrets are texts that must not appear in an error.
type secrets []string

func secretsOf(dsn string, c *pgx.ConnConfig) secrets {
	s := secrets{c.Password}
	if u, err := url.Parse(dsn); err == nil {
		if p, ok := u.User.Password(); ok {
			s = append(s, p)
		}
		s = append(s, u.Query().Get("password"), u.Query().Get("sslpassword"))
	}
	for _, name := range []string{"password", "sslpassword"} {
		if _, rest, ok := strings.Cut(dsn, name+"="); ok {
			s = append(s, strings.Trim(strings.SplitN(rest, " ", 2)[0], "'"))
		}
	}
	return s
}

// hide returns an error without secrets in its text. It still matches what err matches.
func (s secrets) hide(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, x := range s {
		if x != "" {
			text = strings.ReplaceAll(text, x, "…")
		}
	}
	if text == err.Error() {
		return err
	}
	return &hiddenError{text, err}
}

// A hiddenError replaces an error whose text contained a secret.
type hiddenError struct {
	text string
	err  error
}

func (e *hiddenError) Error() string { return e.text }
func (e *hiddenError) Unwrap() error { return e.err }

// code returns the SQLSTATE of an error of the server, or "".
func code(err error) string {
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// passing marks an error that passes: a connection was lost or could not be made, or the server reports a temporary condition.
// Such conditions are that it is shutting down, restarting or a standby, is short of a resource, or was told to cancel.
func passing(err error, closed bool) error {
	if err == nil {
		return nil
	}
	k := code(err)
	if k == "" && closed || k == lockNotAvailable || k == readOnly || k == idleTooLong || len(k) == 5 && slices.Contains([]string{"08", "53", "57", "58"}, k[:2]) {
		return connect.Retry(err)
	}
	return err
}

// SQLSTATEs that this package handles.
const (
	undefinedTable   = "42P01"
	cardinality      = "21000"
	serialization    = "40001"
	deadlock         = "40P01"
	lockNotAvailable = "55P03"
	readOnly         = "25006"
	idleTooLong      = "25P03"
	objectInUse      = "55006"
	notInState       = "55000"
	undefinedFile    = "58P01"
)

// again reports whether a transaction failed because of concurrent transactions, and should be run again.
func again(err error) bool { return code(err) == serialization || code(err) == deadlock }
