//! Tests which words of a command line are masked, and which only look like secrets.

use dlio_schemas::secrets::{masked_text, without_logins};

/// The secret in each of the forms below.
const X: &str = "h7nt3rKq";

/// Arguments, separated by bars, in which `X` is the secret.
const SECRET: &[&str] = &[
    "app|--password|X",
    "app|--password=X",
    "app|--password=X and more&y",
    "app|-password|X",
    "app|--passwd|X",
    "app|--db-password|X",
    "app|--dbPassword=X",
    "app|--pass|X",
    "app|--pwd=X",
    "app|--pw|X",
    "app|--passphrase|X",
    "app|--secret|X",
    "app|--client-secret=X",
    "app|--token|X",
    "app|--token=X",
    "app|--auth-token|X",
    "app|--hf_token=X",
    "app|--api-key|X",
    "app|--apikey=X",
    "app|--api_key=X",
    "app|--access-key|X",
    "app|--wandb-key|X",
    "app|--key|X",
    "app|--key=X",
    "app|--auth|X",
    "app|--auth=X",
    "app|--bearer|X",
    "app|--credentials|X",
    "app|--cookie|X",
    "app|--otp=X",
    "app|-u|me:X",
    "app|-U|me:X",
    "app|-a|me:X",
    "app|--user|me:X",
    "app|--user=me:X",
    "app|--proxy-user|me:X",
    "app|--login=me:X",
    "curl|-u|me:X",
    "curl|-ume:X",
    "curl|--user|me:X",
    "curl|-b|Cookie: id=X",
    "curl|-H|Cookie: a=b; id=X; c=d",
    "curl|-H|Set-Cookie: id=X",
    "curl|-H|Authorization: Bearer X",
    "curl|-H|Authorization: Basic X",
    "curl|-H|Authorization: token X",
    "curl|-H|authorization:Bearer X",
    "curl|-H|Proxy-Authorization: Digest username=\"me\", response=\"X\"",
    "curl|--header=Authorization: Bearer X",
    "curl|Authorization:|Bearer|X",
    "curl|-H|X-Api-Key: X",
    "curl|-H|X-Auth-Token: X",
    "curl|-H|X-Vault-Token:X",
    "curl|--oauth2-bearer|X",
    "curl|https://me:X@host/path",
    "curl|https://me:pa/ss?X@host/path",
    "curl|https://me:a&X@host/path",
    "curl|ftp://me:X@host",
    "psql|postgresql://me:X@db:5432/base",
    "redis-cli|-u|redis://:X@host:6379",
    "git|clone|https://oauth2:X@gitlab.example.com/a/b.git",
    "app|me:X@host",
    "app|--server|me:X@host.example.com:22",
    "app|https://host/a?x=1&sig=X&y=2",
    "app|https://host/a?token=X",
    "app|https://host/a?access_token=X#top",
    "app|https://bucket.s3.amazonaws.com/k?X-Amz-Signature=X",
    "app|https://bucket.s3.amazonaws.com/k?X-Amz-Credential=X%2F2026&X-Amz-Date=1",
    "app|https://bucket.s3.amazonaws.com/k?X-Amz-Security-Token=X",
    "app|https://storage.googleapis.com/k?X-Goog-Signature=X",
    "app|https://a.blob.core.windows.net/k?sv=2026&sig=X",
    "app|https://hooks.slack.com/services/T0/B0/X",
    "app|--webhook=https://hooks.slack.com/services/T0/B0/X",
    "app|https://discord.com/api/webhooks/1/X",
    "app|https://discordapp.com/api/webhooks/1/X",
    "app|https://acme.webhook.office.com/webhookb2/X",
    "app|https://outlook.office.com/webhook/X",
    "app|https://api.telegram.org/botX/sendMessage",
    "app|https://hooks.zapier.com/hooks/catch/1/X",
    "app|{\"password\": \"X\"}",
    "app|{\"password\":\"X\"}",
    "app|{\"a\":1,\"api_key\" : \"X\",\"b\":2}",
    "app|{\"password\": \"a X b\"}",
    "app|{\"password\": \"a\\\"X\"}",
    "app|{\\\"password\\\": \\\"X\\\"}",
    "app|--config={\"token\": \"X\"}",
    "app|{'secret': 'X'}",
    "app|{password: X}",
    "app|{\"Authorization\": \"Bearer X\"}",
    "app|[\"Authorization: Bearer X\", \"b\"]",
    "app|password: X",
    "app|user: me\npassword: X\nhost: h",
    "app|password = X",
    "app|password => X",
    "app|token = 'X'",
    "app|api_key: \"X\"",
    "app|wandb_key=X",
    "app|+api.key=X",
    "app|++api.key=X",
    "app|+trainer.logger.api_key=X",
    "app|++workload.storage.storage_options.secret_access_key=X",
    "app|++workload.storage.storage_options={secret_access_key: X}",
    "env|SSHPASS=X|cmd",
    "env|PGPASSWORD=X|psql",
    "env|MYSQL_PWD=X|mysql",
    "env|HF_TOKEN=X|run",
    "env|WANDB_API_KEY=X|run",
    "env|AWS_SECRET_ACCESS_KEY=X|run",
    "env|AWS_SESSION_TOKEN=X|run",
    "env|AWS_ACCESS_KEY_ID=X|run",
    "env|SECRET=X|run",
    "sh|-c|SSHPASS=X cmd",
    "sh|-c|SSHPASS='X Y' sshpass -e ssh host",
    "sh|-c|sshpass -p X ssh host",
    "sh|-c|sshpass -pX ssh host",
    "sh|-c|cd /; mysql -pX base",
    "sh|-c|curl -H \"Authorization: Bearer X\" https://host",
    "sh|-c|curl -H 'Cookie: a=b; c=X' https://host",
    "sh|-c|curl -u me:X https://host",
    "sh|-c|app --token X; run",
    "sh|-c|app --token=\"X\"",
    "docker|run|-e|DB_PASSWORD=X|image",
    "docker|run|--env=DB_PASSWORD=X|image",
    "docker|build|--build-arg=TOKEN=X|.",
    "docker|login|-p|X|registry",
    "java|-Ddb.password=X",
    "sshpass|-p|X|ssh",
    "sshpass|-pX|ssh",
    "sudo|sshpass|-p|X|ssh",
    "mysql|-pX",
    "/usr/bin/mysqldump|-pX",
    "timeout|5|mysql|-pX",
    "redis-cli|-a|X",
    "7z|a|-pX|a.7z",
    "unzip|-P|X|a.zip",
    "mongosh|-p|X",
    "smbclient|-U|me%X",
    "openssl|enc|-pass|pass:X",
    "az|DefaultEndpointsProtocol=https;AccountName=a;AccountKey=X==;",
    "app|Server=h;User Id=me;Password=X;",
    "app|jdbc:mysql://h/b?user=me&password=X",
    "app|-----BEGIN RSA PRIVATE KEY-----\nX\nX\n-----END RSA PRIVATE KEY-----\n",
    "app|--key|-----BEGIN PRIVATE KEY-----\nX",
    "app|--cert=-----BEGIN OPENSSH PRIVATE KEY-----\\nX\\n-----END OPENSSH PRIVATE KEY-----",
];

/// Tokens that are recognized anywhere by their form.
const TOKENS: &[&str] = &[
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz",
    "gho_16C7e42F292c6912E7710c838347Ae178B4a",
    "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789",
    "sk-ant-api03-abcdefghijklmnopqrstuvwxyz",
    "sk_live_abcdefghijklmnop",
    "xoxb-123456789012-abcdefghijkl",
    "xoxp-123456789012-abcdefghijkl",
    "xoxa-2-123456789012",
    "glpat-abcdefghij0123456789",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "AIzaSyA0123456789abcdefghijklmnopqrstuv",
    "npm_abcdefghijklmnopqrstuvwxyz0123456789",
    "pypi-AgEIcHlwaS5vcmcCJGFiY2RlZmdo",
    "nvapi-abcdefghijklmnopqrstuvwxyz",
];

/// Arguments that are not changed.
const HARMLESS: &[&str] = &[
    "train.py|--key-frames|3",
    "train.py|--tokenizer|bert",
    "train.py|--tokenizer=bert-base-uncased",
    "train.py|--max-tokens|512",
    "train.py|--max_tokens=512",
    "train.py|--num-tokens|1e9",
    "train.py|--min-password-length|8",
    "train.py|--tokens|512",
    "train.py|--tokens-per-batch=4096",
    "train.py|--lr=1e-3|++reader.batch_size=4",
    "train.py|--keyboard|de",
    "train.py|--monkey|patch",
    "train.py|--author|me",
    "train.py|--authors=me",
    "train.py|--auth|none",
    "train.py|--auth=basic",
    "train.py|--auth-type|plain",
    "train.py|--sort-key|name",
    "train.py|--sort_key=length",
    "train.py|--cache-key=epoch",
    "train.py|--monitor-key|val_loss",
    "train.py|--partition-key=day",
    "train.py|num_keys=5",
    "train.py|primary_key=id",
    "train.py|foreign_key=user_id",
    "train.py|key=value",
    "train.py|--keys|a,b",
    "train.py|--key|k.pem",
    "train.py|--key|/etc/ssl/server.key",
    "train.py|--key=3",
    "train.py|--passes|2",
    "train.py|--bypass|cache",
    "train.py|--compass=north",
    "train.py|-pass|1",
    "ffmpeg|-pass|2|out.mp4",
    "train.py|--no-password",
    "train.py|--password-file|/run/secrets/db",
    "train.py|--password-stdin|registry",
    "train.py|--password-command|pass show db",
    "train.py|--token-file=/run/token",
    "train.py|--token-type|bpe",
    "train.py|--token-count|9",
    "train.py|--secret-name|db",
    "train.py|--signature-version=4",
    "train.py|--cookie-file|jar.txt",
    "train.py|--pwdx|3",
    "env|PWD=/home/me|OLDPWD=/tmp|run",
    "env|OMP_NUM_THREADS=4|CUDA_VISIBLE_DEVICES=0,1|run",
    "python|-u|train.py",
    "python3|-u|-m|torch.distributed.run|--nproc_per_node=4",
    "python3|-m|pass|sk-learn|-",
    "python3|-c|import os; print(os.getpid())",
    "python3|-c|tokens = 5; print(tokens)",
    "sudo|-u|me|train.py",
    "docker|run|-u|1000:1000|image",
    "docker|run|--user|1000:1000|image",
    "docker|run|-p|8080:80|image",
    "docker|run|-v|/run/secrets/token:/token:ro|image",
    "docker|run|registry/image:tag@sha256:0123456789abcdef",
    "ssh|-p|22|me@host",
    "ssh|-i|/home/me/.ssh/id_ed25519|me@host",
    "app|-p|8080",
    "app|--port=8080",
    "tar|-pxf|a.tar",
    "tar|-xpzf|a.tar.gz|-C|/data",
    "mkdir|-p|/data/password",
    "cp|-p|a|b",
    "mysql|-p|base",
    "mysql|--port=3306",
    "cp|/data/secret.npz|/data/token|s3://bucket/key?x=1",
    "cp|/data/tokens/train.npy|/data/keys.h5",
    "git|clone|git@github.com:me/repo.git",
    "git|clone|ssh://git@github.com/me/repo.git",
    "git|clone|https://github.com/me/repo.git",
    "curl|http://localhost:8080/a?page=2",
    "curl|-H|Content-Type: application/json",
    "curl|-H|Accept: text/html",
    "rsync|-a|me@host:/data/|/data/",
    "rsync|-a|/data/|/backup/",
    "torchrun|--rdzv-endpoint=host:29500|--rdzv_backend=c10d",
    "app|{\"batch_size\": 4, \"path\": \"/data/a\"}",
    "app|{\"tokenizer\": \"bert\", \"max_tokens\": 512}",
    "app|hf_hub|hf_transfer|sk-learn|scikit-learn",
    "app|tests/test_auth.py::test_key",
    "app|12:30:05|a=b=c|x:y",
    "app|C:\\data\\a.npz",
    "app|s3://bucket/a/b.npz|/data/a,b",
];

/// Returns the arguments with the secret inserted, separated by zeros.
fn arguments(typed: &str) -> String {
    // Names of headers contain the letter, too.
    typed.replace("X-", "\u{1}-").replace('X', X).replace('\u{1}', "X").replace('|', "\0")
}

#[test]
fn secrets_in_command_lines_are_masked() {
    assert!(SECRET.len() >= 100);
    let shown = |typed: &&str| masked_text(&arguments(typed)).replace('\0', "|");
    let left: Vec<_> =
        SECRET.iter().map(|typed| (*typed, shown(typed))).filter(|(_, shown)| shown.contains(X)).collect();
    assert!(left.is_empty(), "{} of {} stay: {left:#?}", left.len(), SECRET.len());
    for typed in SECRET {
        let first = typed.split('|').next().unwrap();
        assert!(shown(typed).starts_with(first), "{typed}: the program stays");
        let once = masked_text(&arguments(typed));
        assert_eq!(masked_text(&once), once, "{typed}: masked twice");
    }
}

#[test]
fn tokens_of_known_form_are_masked_anywhere() {
    for token in TOKENS {
        for form in
            ["app|T", "app|--x=T", "app|https://host/a?b=T&c=d", "T|a", "app|{\"a\": \"T\"}", "sh|-c|run T; b", "/a/T"]
        {
            let shown = masked_text(&form.replace('T', token).replace('|', "\0"));
            assert!(!shown.contains(&token[token.len() - 6..]), "{form}: {shown}");
        }
    }
}

#[test]
fn words_that_only_look_like_secrets_stay() {
    assert!(HARMLESS.len() >= 60);
    let shown = |typed: &&str| masked_text(&typed.replace('|', "\0")).replace('\0', "|");
    let masked: Vec<_> =
        HARMLESS.iter().map(|typed| (*typed, shown(typed))).filter(|(typed, shown)| typed != shown).collect();
    assert!(masked.is_empty(), "{} of {} are masked: {masked:#?}", masked.len(), HARMLESS.len());
}

#[test]
fn harmless_arguments_stay_next_to_secrets() {
    for (typed, expected) in [
        ("curl|-H|Authorization: Bearer X|https://host/a", "curl|-H|Authorization: ***|https://host/a"),
        ("app|{\"a\":1,\"api_key\" : \"X\",\"b\":2}", "app|{\"a\":1,\"api_key\" : \"***\",\"b\":2}"),
        ("app|https://host/a?x=1&sig=X&y=2", "app|https://host/a?x=1&sig=***&y=2"),
        ("sh|-c|sshpass -p X ssh -p 22 host", "sh|-c|sshpass -p *** ssh -p 22 host"),
        ("docker|run|-u|me:X|--gpus|2|image", "docker|run|-u|me:***|--gpus|2|image"),
    ] {
        assert_eq!(masked_text(&arguments(typed)).replace('\0', "|"), expected);
    }
}

#[test]
fn logins_in_addresses_are_masked() {
    for (message, expected) in [
        ("the endpoint `https://me:X@host` is not a URL", "the endpoint `https://***@host` is not a URL"),
        ("https://me:a/X@host:9000/b, twice http://X@h", "https://***@host:9000/b, twice http://***@h"),
        ("http://host:9000/a@b and s3://bucket/key@2", "http://host:9000/a@b and s3://bucket/key@2"),
        ("nothing here, a@b", "nothing here, a@b"),
    ] {
        assert_eq!(without_logins(&message.replace('X', X)), expected);
    }
}
