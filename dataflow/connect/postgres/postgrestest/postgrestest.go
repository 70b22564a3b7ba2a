package postgrestest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Server is a PostgreSQL server with its own folder.
type Server struct {
	Port int

	dir, bin string
	uid, gid int // -1 to run as the user of the tests
	settings []string
	process  *exec.Cmd
	log      *os.File
}

// databases numbers the databases of this process.
var databases atomic.Int64

// shared is the server of all tests of a binary.
var shared once

type once struct {
	sync.Mutex
	server *Server
}

func (o *once) get(tb testing.TB) *Server {
	tb.Helper()
	o.Lock()
	defer o.Unlock()
	if o.server == nil {
		s, err := create(tb)
		if err != nil {
			tb.Fatal(err)
		}
		o.server = s
	}
	return o.server
}

// Main runs the tests of a package and stops their shared server.
func Main(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		shared.server.remove()
	}
	os.Exit(code)
}

// Shared returns the server that all tests of a binary share. The TestMain of the binary must call [Main].
func Shared(tb testing.TB) *Server {
	tb.Helper()
	return shared.get(tb)
}

// Start starts a server for one test. The settings have the form "name=value", as in its configuration file.
func Start(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	s, err := create(tb, settings...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.remove)
	return s
}

// DSN returns the connection string of one of the server's databases.
func (s *Server) DSN(database string) string {
	return fmt.Sprintf("host=127.0.0.1 port=%d user=postgres dbname=%s sslmode=disable", s.Port, database)
}

// Database creates a database for a test and returns its connection string.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), databases.Add(1))
	c := Connect(tb, s.DSN("postgres"))
	Exec(tb, c, "create database "+name)
	tb.Cleanup(func() {
		ctx := context.Background()
		c, err := pgx.Connect(ctx, s.DSN("postgres"))
		if err != nil {
			return // the server was stopped
		}
		defer c.Close(ctx)
		c.Exec(ctx, "select pg_terminate_backend(active_pid, 60000) from pg_replication_slots where database = $1 and active", name)
		c.Exec(ctx, "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = $1", name)
		c.Exec(ctx, "drop database "+name+" with (force)")
	})
	return s.DSN(name)
}

// Connect opens a connection that is closed at the end of the test.
func Connect(tb testing.TB, dsn string) *pgx.Conn {
	tb.Helper()
	c, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// Exec runs statements.
func Exec(tb testing.TB, c *pgx.Conn, sql string, args ...any) {
	tb.Helper()
	if _, err := c.Exec(context.Background(), sql, args...); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// create creates the folder of a server and starts the server.
func create(tb testing.TB, settings ...string) (s *Server, failed error) {
	tb.Helper()
	bin, err := installed()
	if err != nil {
		if os.Getenv("MILLRACE_REAL") == "require" {
			tb.Fatal(err)
		}
		tb.Skipf("SKIPPED, NOT TESTED: %v", err)
	}
	s = &Server{bin: bin, uid: -1, gid: -1}
	if s.dir, err = os.MkdirTemp("", "millrace-postgres-"); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 { // the server refuses to run as root
		for _, name := range []string{"postgres", "nobody"} {
			u, err := user.Lookup(name)
			if err != nil {
				continue
			}
			s.uid, _ = strconv.Atoi(u.Uid)
			s.gid, _ = strconv.Atoi(u.Gid)
			break
		}
		if s.uid < 0 {
			return nil, fmt.Errorf("postgrestest: the tests run as root, and there is no user postgres or nobody for the server")
		}
		if err := os.Chown(s.dir, s.uid, s.gid); err != nil {
			return nil, err
		}
	}
	if out, err := s.command("initdb", "-D", s.data(), "-A", "trust", "-U", "postgres", "--no-instructions", "--no-sync", "--locale=C", "-E", "UTF8").CombinedOutput(); err != nil {
		s.remove()
		return nil, fmt.Errorf("postgrestest: initdb: %w: %s", err, out)
	}
	for range 5 { // another program may take the port in between
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			s.remove()
			return nil, err
		}
		s.Port = l.Addr().(*net.TCPAddr).Port
		l.Close()
		s.settings = slices.Concat([]string{
			"listen_addresses=127.0.0.1", fmt.Sprint("port=", s.Port), "unix_socket_directories=" + s.dir,
			"wal_level=logical", "max_wal_senders=40", "max_replication_slots=40", "max_connections=100",
		}, settings)
		if err = s.Run(); err == nil {
			return s, nil
		}
		failed = err
	}
	s.remove()
	return nil, failed
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// command returns a command of the installation, run as the server's user.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, name), args...)
	c.Dir = s.dir
	c.SysProcAttr = &syscall.SysProcAttr{}
	if s.uid >= 0 {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.gid)}
	}
	endWithParent(c.SysProcAttr)
	return c
}

// Run starts the server, which must not be running, and returns when it accepts connections.
func (s *Server) Run() error {
	args := []string{"-D", s.data()}
	for _, x := range s.settings {
		args = append(args, "-c", x)
	}
	if s.log == nil {
		f, err := os.Create(filepath.Join(s.dir, "log"))
		if err != nil {
			return err
		}
		s.log = f
	}
	s.process = s.command("postgres", args...)
	s.process.Stdout, s.process.Stderr = s.log, s.log
	if err := s.process.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func(c *exec.Cmd) { ended <- c.Wait() }(s.process)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		c, err := pgx.Connect(ctx, s.DSN("postgres"))
		cancel()
		if err == nil {
			return c.Close(context.Background())
		}
		select {
		case err := <-ended:
			text, _ := os.ReadFile(s.log.Name())
			return fmt.Errorf("postgrestest: postgres ended: %v\n%s", err, text)
		case <-tick.C:
		}
	}
}

// Stop stops the server as a failure of its machine would: without a checkpoint, and without telling its clients.
func (s *Server) Stop() error {
	if out, err := s.command("pg_ctl", "-D", s.data(), "-m", "immediate", "-w", "stop").CombinedOutput(); err != nil {
		return fmt.Errorf("postgrestest: pg_ctl stop: %w: %s", err, out)
	}
	return nil
}

func (s *Server) remove() {
	if s.process != nil {
		s.Stop()
	}
	if s.log != nil {
		s.log.Close()
	}
	os.RemoveAll(s.dir)
}

// installed returns the folder with the programs of PostgreSQL.
func installed() (string, error) {
	if p, err := exec.LookPath("postgres"); err == nil {
		if p, err = filepath.EvalSymlinks(p); err == nil {
			if _, err := os.Stat(filepath.Join(filepath.Dir(p), "initdb")); err == nil {
				return filepath.Dir(p), nil
			}
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	more, _ := filepath.Glob("/opt/homebrew/opt/postgresql*/bin/postgres")
	found = append(found, more...)
	version := func(p string) int {
		n, _ := strconv.Atoi(strings.Trim(filepath.Base(filepath.Dir(filepath.Dir(p))), "abcdefghijklmnopqrstuvwxyz@"))
		return n
	}
	if len(found) == 0 {
		return "", fmt.Errorf("postgrestest: there is no PostgreSQL: install one (apt-get install postgresql), or put its programs into PATH")
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
}
