package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// server is a kube-apiserver over its own etcd, both of them this program started again.
type server struct {
	dir       string
	url       string
	token     string
	client    *http.Client
	processes []*exec.Cmd
}

// startServer returns when the server is ready and its default RBAC objects are written.
func startServer() (s *server, err error) {
	dir, err := os.MkdirTemp("", "kube-schema-")
	if err != nil {
		return nil, err
	}
	s = &server{dir: dir, token: "kube-schema"}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	clients, peers := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	s.url = fmt.Sprintf("https://127.0.0.1:%d", ports[2])
	if err := writeKey(s.path("accounts.key")); err != nil {
		return nil, err
	}
	if err := os.WriteFile(s.path("tokens.csv"), []byte(s.token+`,admin,admin,"system:masters"`+"\n"), 0o600); err != nil {
		return nil, err
	}
	err = s.start("etcd", "--data-dir", s.path("etcd"), "--listen-client-urls", clients,
		"--advertise-client-urls", clients, "--listen-peer-urls", peers,
		"--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers)
	if err != nil {
		return nil, err
	}
	err = s.start("kube-apiserver", "--etcd-servers", clients, "--secure-port", fmt.Sprint(ports[2]),
		"--bind-address", "127.0.0.1", "--cert-dir", s.path("certs"), "--token-auth-file", s.path("tokens.csv"),
		"--service-account-key-file", s.path("accounts.key"), "--service-account-signing-key-file", s.path("accounts.key"),
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-cluster-ip-range", "10.96.0.0/16",
		"--authorization-mode", "RBAC")
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if err = s.ready(); err == nil {
			return s, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("the API server does not become ready: %w", err)
		}
	}
}

// ready trusts the certificate that the server has written for itself, once it is there.
func (s *server) ready() error {
	if s.client == nil {
		certificate, err := os.ReadFile(s.path("certs/apiserver.crt"))
		if err != nil {
			return err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(certificate)
		s.client = &http.Client{
			Timeout:   30 * time.Second,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		}
	}
	_, err := s.get("/readyz", "")
	return err
}

// get returns the body of a successful answer.
func (s *server) get(path, accept string) ([]byte, error) {
	request, err := http.NewRequest(http.MethodGet, s.url+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	request.Header.Set("Accept", accept)
	answer, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", path, answer.Status, body)
	}
	return body, err
}

func (s *server) getJSON(path, accept string, into any) error {
	body, err := s.get(path, accept)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

func (s *server) path(name string) string { return filepath.Join(s.dir, name) }

func (s *server) start(arguments ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.Create(s.path(arguments[0] + ".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	process := exec.Command(self, arguments...)
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil {
		return err
	}
	s.processes = append(s.processes, process)
	return nil
}

// stop ends the processes, the last started first, and removes what they wrote.
func (s *server) stop() {
	for i := len(s.processes) - 1; i >= 0; i-- {
		_ = s.processes[i].Process.Signal(os.Interrupt)
		_ = s.processes[i].Wait()
	}
	_ = os.RemoveAll(s.dir)
}

func freePorts(count int) ([]int, error) {
	ports := make([]int, count)
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		ports[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

func writeKey(path string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return os.WriteFile(path, pem.EncodeToMemory(&block), 0o600)
}
