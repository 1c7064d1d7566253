package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// authority signs for one cluster, and is trusted by it and its clients alone.
type authority struct {
	folder      folder
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// text is the certificate in PEM.
	text []byte
}

// newAuthority writes ca.crt and ca.key.
func newAuthority(folder folder) (*authority, error) {
	a := &authority{folder: folder}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "devcluster"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	certificate, key, err := a.sign(template)
	if err != nil {
		return nil, err
	}
	a.text = certificate
	return a, writeFiles(folder, map[string][]byte{"ca.crt": certificate, "ca.key": key})
}

// serve writes the certificate of the API server, for every name by which it is asked.
func (a *authority) serve() error {
	certificate, key, err := a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	return writeFiles(a.folder, map[string][]byte{"apiserver.crt": certificate, "apiserver.key": key})
}

// member writes the kubeconfig of a part of the cluster, which is known by its certificate.
func (a *authority) member(file, server, user string) error {
	certificate, key, err := a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return err
	}
	base64 := base64.StdEncoding.EncodeToString
	return a.kubeconfig(file, server,
		fmt.Sprintf("client-certificate-data: %s, client-key-data: %s", base64(certificate), base64(key)))
}

// administrator writes the kubeconfig that we give away. It has a token, not a certificate: a certificate speaks on every
// connection and would keep whoever uses the file from being somebody else by another token.
func (a *authority) administrator(server string) error {
	token := rand.Text()
	return errors.Join(
		writeFiles(a.folder, map[string][]byte{tokensFile: []byte(token + `,kubernetes-admin,kubernetes-admin,"system:masters"` + "\n")}),
		a.kubeconfig(adminConfig, server, "token: "+token),
	)
}

func (a *authority) kubeconfig(file, server, credentials string) error {
	text := fmt.Sprintf(kubeconfigText, server, base64.StdEncoding.EncodeToString(a.text), credentials)
	return writeFiles(a.folder, map[string][]byte{file: []byte(text)})
}

// kubeconfigText is for people and for plain tools: what belongs together stands on one line.
const kubeconfigText = `apiVersion: v1
kind: Config
clusters:
- {name: devcluster, cluster: {server: "%s", certificate-authority-data: %s}}
users:
- {name: devcluster, user: {%s}}
contexts:
- {name: devcluster, context: {cluster: devcluster, user: devcluster}}
current-context: devcluster
`

// sign makes a key and its certificate, both in PEM. The first one is the authority's own.
func (a *authority) sign(template *x509.Certificate) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, nil, err
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0)
	if a.certificate == nil {
		a.certificate, a.key = template, private
	}
	bytes, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &private.PublicKey, a.key)
	if err != nil {
		return nil, nil, err
	}
	key, err = keyText(private)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: bytes}), key, err
}

// accountKey writes the key that signs the tokens of service accounts.
func accountKey(folder folder) error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	key, err := keyText(private)
	if err != nil {
		return err
	}
	return writeFiles(folder, map[string][]byte{"accounts.key": key})
}

func keyText(key *ecdsa.PrivateKey) ([]byte, error) {
	bytes, err := x509.MarshalECPrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: bytes}), err
}

func writeFiles(folder folder, files map[string][]byte) error {
	for name, text := range files {
		if err := os.WriteFile(folder.path(name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
