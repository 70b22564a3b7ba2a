package main

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"strings"
)

// The files of the API's token in the folder of serve: the token, and the headers of a request
// with the token, which 'curl -H @FILE' sends.
const (
	tokenName   = "api.token"
	headersName = "api.headers"
)

// newToken returns a random token that cannot be guessed.
func newToken() string {
	var secret [32]byte
	rand.Read(secret[:])
	return base64.RawURLEncoding.EncodeToString(secret[:])
}

// keptToken returns the token in the folder of serve, which it makes if there is none. Each time
// it writes the file with the headers anew.
func keptToken(state string) (string, error) {
	name := filepath.Join(state, tokenName)
	token, err := readToken(name)
	if errors.Is(err, os.ErrNotExist) {
		if _, err := makeSecret(name, newToken()); err != nil {
			return "", err
		}
		token, err = readToken(name)
	}
	if err != nil {
		return "", err
	}
	headers := "Authorization: Bearer " + token + "\nContent-Type: application/json\n"
	return token, replaceSecret(filepath.Join(state, headersName), headers)
}

// tokenText matches a token (RFC 6750). A random token of this length cannot be guessed.
var tokenText = regexp.MustCompile(`^[A-Za-z0-9._~+/-]{32,512}=*$`)

// readToken returns the token in a file. Only the owner of the file may be able to read it.
func readToken(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a file", name)
	}
	if open := info.Mode().Perm() & 0o077; open != 0 && goruntime.GOOS != "windows" { // Windows has no such modes
		return "", fmt.Errorf("%s has mode %04o: others can read or write it, so it keeps no secret. Remove it to have a new one made, or run: chmod 600 %s", name, info.Mode().Perm(), name)
	}
	text := make([]byte, 1024)
	n, err := f.Read(text)
	if err == io.EOF { // it is empty
		err = nil
	}
	token := strings.TrimSpace(string(text[:n]))
	if n == len(text) || !tokenText.MatchString(token) {
		return "", errors.Join(fmt.Errorf("%s has no token: 32 to 512 letters, digits and - . _ ~ + /, such as openssl rand -hex 32 prints", name), err)
	}
	return token, nil
}

// findToken returns the token of a runtime for a client: the one in the given file or, if
// there is none, the one in the runtime's folder.
func findToken(file, state string) (string, error) {
	if file != "" {
		return readToken(file)
	}
	token, err := readToken(filepath.Join(state, tokenName))
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%w: give --state, the folder of the runtime, or --token-file", err)
	}
	return token, err
}

// onLoopback reports whether a listen address can be reached only from this host.
func onLoopback(address string) (bool, error) {
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return false, err
	}
	return at.IP.IsLoopback(), nil // an address without an IP means all addresses of this host
}

// apiToken returns the token of the API of serve. Without a file it is the one in the folder,
// which is only for this host: to open the API to others, the operator has to choose a token.
func apiToken(fs *flag.FlagSet, address, file, state string) (string, error) {
	local, err := onLoopback(address)
	switch {
	case err != nil:
		return "", fmt.Errorf("--api: %w", err)
	case file != "":
		return readToken(file)
	case !local:
		fmt.Fprintf(fs.Output(), "millrace %s: --api %s can be reached from other hosts, so it needs a token of your own: give --token-file FILE\n", fs.Name(), address)
		return "", errUsage
	}
	return keptToken(state)
}

// whereToken says where the token of the API is.
func whereToken(file, state string) string {
	if file != "" {
		return "the token of the API is that of " + file
	}
	return fmt.Sprintf("the token of the API is in %s; curl sends it with -H @%s", filepath.Join(state, tokenName), filepath.Join(state, headersName))
}
