package postgres_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/postgres"
	"github.com/millrace/millrace/dataflow/connect/postgres/postgrestest"
)

const secret = "hunter2/secret"

// Case 57: no error and nothing that is printed contains the password.
func TestSecrets(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().(*net.TCPAddr).Port
	l.Close()
	live := postgrestest.Shared(t).Port
	for _, dsn := range []string{
		fmt.Sprintf("host=127.0.0.1 port=%d user=postgres password=%s dbname=x", closed, secret),
		fmt.Sprintf("host=127.0.0.1 port=%d user=nobody password=%s dbname=%s", live, secret, secret),
		fmt.Sprintf("host=127.0.0.1 port=%d user=%s password='%s' dbname=x", live, secret, secret),
		fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%d/x", secret, closed),
		"postgres://postgres:hunter2%2Fsecret@127.0.0.1:" + fmt.Sprint(live) + "/hunter2%2Fsecret",
		"host=127.0.0.1 password=" + secret + " port=" + secret,
		"host=127.0.0.1 password='" + secret,
		"password=" + secret + " sslmode=" + secret,
		fmt.Sprintf("postgres://127.0.0.1:%d/x?user=postgres&password=%s&connect_timeout=%s", closed, secret, secret),
	} {
		for _, configure := range []func(context.Context, *pgx.ConnConfig) error{nil, func(_ context.Context, c *pgx.ConnConfig) error {
			return errors.New("the vault has no " + c.Password)
		}} {
			db := postgres.Database{DSN: dsn, Configure: configure}
			slot := postgres.Slot{Database: db, Name: "s", Publication: "p"}
			sink, reader := postgres.Append(db, "t", text), postgres.Changes(slot)
			upsert := postgres.Upsert(db, "t", number, text)
			_, _, err1 := sink.Open(t.Context(), lane)
			_, err2 := reader.Splits(t.Context())
			_, err3 := reader.Open(t.Context(), connect.Split{ID: "pg/1/s/1"}, dataflow.Position{})
			var logged bytes.Buffer
			for _, h := range []slog.Handler{slog.NewTextHandler(&logged, nil), slog.NewJSONHandler(&logged, nil)} {
				slog.New(h).Info("said", "db", db, "slot", slot, "sink", sink, "err", err1)
			}
			encoded, err := json.Marshal(map[string]any{"db": db, "slot": slot.Name, "sink": sink})
			if err != nil && !strings.Contains(err.Error(), "unsupported type") {
				t.Error(err)
			}
			for i, x := range []any{err1, err2, err3, slot.Check(t.Context()), postgres.Setup(t.Context(), db), postgres.Renew(t.Context(), slot), db, &db, slot, &slot, sink, upsert, reader, logged.String(), string(encoded)} {
				if x == nil {
					t.Errorf("%d: no error", i)
				}
				for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
					s := fmt.Sprintf(verb, x)
					if strings.Contains(s, "hunter2") || strings.Contains(s, secret) {
						t.Errorf("%d: %s prints the password: %s", i, verb, s)
					}
				}
			}
		}
	}
}

// TestSecretsOfWriters checks that printing writers and readers does not show a password.
func TestSecretsOfWriters(t *testing.T) {
	db, c := prepared(t, gotTable, "create publication p for table got")
	postgrestest.Exec(t, c, "alter publication p set (publish = 'insert')")
	db.DSN += " password=" + secret
	r := postgres.Changes(postgres.Slot{Database: db, Name: "secrets", Publication: "p"})
	in := cursorAt(t, r, splitOf(t, r), dataflow.Position{})
	for _, x := range []any{open(t, variants["Append"](db), 0), open(t, variants["Upsert"](db), 0), in} {
		for _, verb := range []string{"%v", "%+v", "%#v"} {
			if s := fmt.Sprintf(verb, x); strings.Contains(s, secret) {
				t.Errorf("%T: %s", x, s)
			}
		}
	}
}
